"""A recurrent policy's hidden state is carried on and on without detach()."""

import time
from contextlib import nullcontext
from typing import Any

import torch


class Policy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(64, 256)
        self.hidden = torch.zeros(64, 256)

    def act(self, observation: Any) -> Any:
        self.hidden = self.cell(observation, self.hidden)
        return self.hidden[:, 0]


def rollout(policy: Policy, steps: int) -> float:
    total = 0.0
    for _ in range(steps):
        total += float(policy.act(torch.randn(64, 64)).sum())
        time.sleep(0.006)
    return total


def shape_rewards() -> float:
    return float(sum((i % 17) * 0.5 for i in range(300_000)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(1)
    policy = Policy()
    for generation in range(20):
        with phase(generation, "rollout"):
            rollout(policy, 16)
        with phase(generation, "shape"):
            shape_rewards()


if __name__ == "__main__":
    run()
