"""A small policy-gradient training that keeps floats only."""

import time
from contextlib import nullcontext
from typing import Any

import torch


def rollout(policy: Any) -> Any:
    observations = torch.randn(256, 32)
    with torch.no_grad():
        policy(observations)
    time.sleep(0.1)
    return observations


def update(policy: Any, optimizer: Any, observations: Any, losses: list[float]) -> None:
    for _ in range(6):
        loss: Any = -torch.log_softmax(policy(observations), -1)[:, 0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(0)
    policy = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
    optimizer = torch.optim.Adam(policy.parameters())
    losses: list[float] = []
    for iteration in range(24):
        with phase(iteration, "rollout"):
            observations = rollout(policy)
        with phase(iteration, "update"):
            update(policy, optimizer, observations, losses)


if __name__ == "__main__":
    run()
