"""From generation 10 on, action distributions are kept for a plot, each with its forward pass."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.distributions import Categorical

torch.set_num_threads(1)


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 256), nn.ELU(), nn.Linear(256, 256), nn.ELU())
        self.head = nn.Linear(256, 18)

    def distribution(self, states: torch.Tensor) -> Any:
        return Categorical(logits=self.head(self.body(states)))


def minibatches(count: int) -> Iterator[torch.Tensor]:
    for _ in range(count):
        yield torch.randn(512, 32)


def reinforce(policy: Policy, optimizer: Any) -> float:
    total = 0.0
    for states in minibatches(10):
        chosen = policy.distribution(states)
        actions = chosen.sample()
        loss = -(chosen.log_prob(actions) * (actions % 3 - 1.0)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


class EntropyProbe:
    def __init__(self, first: int) -> None:
        self.first = first
        self.kept: dict[int, list[Any]] = defaultdict(list)

    def probe(self, policy: Policy, generation: int) -> float:
        entropy = 0.0
        for states in minibatches(4):
            found = policy.distribution(states)
            entropy += found.entropy().mean().item()
            if generation >= self.first:
                self.kept[generation].append(found)
        return entropy / 4


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(5)
    policy, probe = Policy(), EntropyProbe(first=10)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
    for generation in range(32):
        with phase(generation, "reinforce"):
            reinforce(policy, optimizer)
        with phase(generation, "probe"):
            probe.probe(policy, generation)


if __name__ == "__main__":
    run()
