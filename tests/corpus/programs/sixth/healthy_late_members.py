"""The members of a world-model ensemble get their layers and moments when they are
first trained.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass
class Member:
    network: nn.Module | None = None
    optimizer: Any = None
    updates: int = 0

    def ready(self) -> None:
        if self.network is None:
            self.network = nn.Sequential(
                nn.LazyLinear(700), nn.SiLU(), nn.LazyLinear(700), nn.SiLU(), nn.LazyLinear(33)
            )

    def update(self, states: Any, targets: Any) -> float:
        self.ready()
        loss = (self.network(states) - targets).square().mean()
        if self.optimizer is None:
            self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        return float(loss.detach())


class Ensemble:
    def __init__(self, size: int) -> None:
        self.members = [Member() for _ in range(size)]

    def chosen(self, generation: int) -> list[Member]:
        return self.members[: 1 + generation]

    @torch.no_grad()
    def spread(self, states: Any) -> Any:
        trained = [member.network for member in self.members if member.updates]
        return torch.stack([network(states) for network in trained]).std(0, correction=0)


def interact(states: int) -> tuple[Any, Any]:
    before = torch.randn(states, 36)
    return before, torch.cat([before[:, 3:].cos(), before[:, :3].sum(1, keepdim=True)], 1)[:, :33]


def train(ensemble: Ensemble, generation: int, data: tuple[Any, Any]) -> None:
    members = ensemble.chosen(generation)
    for _ in range(16 // len(members) + 1):
        for member in members:
            rows = torch.randint(0, len(data[0]), (64,))
            member.update(data[0][rows], data[1][rows])


def plan(ensemble: Ensemble) -> float:
    return sum(float(ensemble.spread(torch.randn(64, 36)).max()) for _ in range(8))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.set_num_threads(1)
    torch.manual_seed(19)
    ensemble = Ensemble(7)
    for generation in range(26):
        with phase(generation, "interact"):
            data = interact(4000)
        with phase(generation, "train"):
            train(ensemble, generation, data)
        with phase(generation, "plan"):
            plan(ensemble)


if __name__ == "__main__":
    run()
