"""PPO in one file, in the way of CleanRL: tensors for storage, one agent, plain minibatches.

Usage: single_file_job.py '{"observation": "4x84x84:uint8", "action": "discrete:6", …}'
"""

import json
import os
import re
import sys
from typing import Any

import gymnasium  # noqa: F401 - such files import it, and that is part of what they take
import numpy as np
import torch
from torch import nn


class Agent(nn.Module):
    """Two towers on a vector, or two heads on a shared convolution."""

    def __init__(self, shape: tuple[int, ...], actions: int) -> None:
        super().__init__()
        self.is_image = len(shape) == 3
        if self.is_image:
            self.body: nn.Module = nn.Sequential(
                nn.Conv2d(shape[0], 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.LazyLinear(512), nn.ReLU(),
            )  # fmt: skip
            self.body(torch.zeros(1, *shape))
            self.actor: nn.Module = nn.Linear(512, actions)
            self.critic: nn.Module = nn.Linear(512, 1)
        else:
            self.body = nn.Identity()
            self.actor = tower(shape[0], actions)
            self.critic = tower(shape[0], 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        hidden = self.body(x / 255.0 if self.is_image else x)
        return torch.distributions.Categorical(logits=self.actor(hidden)), self.critic(hidden)


def tower(inputs: int, outputs: int) -> nn.Module:
    """Two hidden layers of 64."""
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


def collect(
    agent: Agent, storage: dict[str, torch.Tensor], shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Fill the storage with noise that the agent has looked at."""
    envs = storage["rewards"].shape[1]
    for step in range(storage["rewards"].shape[0]):
        noise = rng.integers(0, 255, (envs, *shape), np.uint8)
        storage["obs"][step] = torch.Tensor(noise)
        with torch.no_grad():
            policy, value = agent(storage["obs"][step])
            action = policy.sample()
        storage["actions"][step] = action
        storage["logprobs"][step] = policy.log_prob(action)
        storage["values"][step] = value.flatten()


def update(
    agent: Agent, optimizer: torch.optim.Optimizer, storage: dict[str, torch.Tensor], batch: int
) -> None:
    """One epoch of minibatches."""
    flat = {name: value.reshape((-1, *value.shape[2:])) for name, value in storage.items()}
    rows = np.arange(len(flat["rewards"]))
    for start in range(0, len(rows), batch):
        chosen = rows[start : start + batch]
        policy, value = agent(flat["obs"][chosen])
        ratio = (policy.log_prob(flat["actions"][chosen]) - flat["logprobs"][chosen]).exp()
        loss = ratio.mean() + ((value.flatten() - flat["values"][chosen]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    torch.set_num_threads(job.get("torch_threads", 1))
    shape = tuple(int(number) for number in job["observation"].partition(":")[0].split("x"))
    size = (job["n_steps"], job["n_envs"])
    agent = Agent(shape, int(job["action"].partition(":")[2]))
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4)
    names = ("actions", "logprobs", "rewards", "dones", "values")
    storage = {"obs": torch.zeros(size + shape), **{name: torch.zeros(size) for name in names}}
    rng = np.random.default_rng(1)
    for _ in range(2):
        collect(agent, storage, shape, rng)
        update(agent, optimizer, storage, job["batch_size"])
    with open("/proc/self/status") as status:
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read(), re.M)
    report = {
        "peak_bytes": int(found[1]) * 1024 if found else 0,
        "workers_bytes": 0,
        "buffer_bytes": sum(value.nbytes for value in storage.values()),
        "parameter_bytes": sum(p.numel() * p.element_size() for p in agent.parameters()),
    }
    print(json.dumps(report), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
