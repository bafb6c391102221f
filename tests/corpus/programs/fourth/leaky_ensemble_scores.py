"""Scores of dynamics models on held-out data are kept as tensors, each with the graph behind it."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

STATE, ACTION, MEMBERS = 20, 6, 4


class DynamicsModel(nn.Module):
    def __init__(self, hidden: int = 190) -> None:
        super().__init__()
        self.inner = nn.Linear(STATE + ACTION, hidden)
        self.outer = nn.Linear(hidden, hidden)
        self.mean = nn.Linear(hidden, STATE)
        self.spread = nn.Linear(hidden, STATE)

    def forward(self, inputs: Any) -> tuple[Any, Any]:
        lifted = functional.silu(self.outer(functional.silu(self.inner(inputs))))
        return self.mean(lifted), functional.softplus(self.spread(lifted)) + 0.01

    def score(self, inputs: Any, targets: Any) -> Any:
        mean, spread = self(inputs)
        return functional.gaussian_nll_loss(mean, targets, spread)


@dataclass
class Score:
    member: int
    loss: Any


@dataclass
class Generation:
    number: int
    scores: list[Score] = field(default_factory=list)

    def elites(self, count: int) -> list[int]:
        ranked = sorted(self.scores, key=lambda score: float(score.loss))
        return [score.member for score in ranked[:count]]


class WorldModel:
    def __init__(self) -> None:
        torch.manual_seed(4)
        self.members = [DynamicsModel() for _ in range(MEMBERS)]
        self.optimizers = [torch.optim.Adam(one.parameters(), 1e-3) for one in self.members]
        self.generations: list[Generation] = []

    def train(self, inputs: Any, targets: Any) -> None:
        for member, optimizer in zip(self.members, self.optimizers, strict=True):
            for rows in torch.randperm(len(inputs)).view(-1, 250):
                optimizer.zero_grad()
                member.score(inputs[rows], targets[rows]).backward()
                optimizer.step()

    def validate(self, number: int, inputs: Any, targets: Any) -> list[int]:
        result = Generation(number)
        for index, member in enumerate(self.members):
            result.scores.append(Score(index, member.score(inputs, targets)))
        self.generations.append(result)
        return result.elites(2)


def collect(plant: Any, count: int) -> tuple[Any, Any]:
    inputs = torch.randn(count, STATE + ACTION)
    targets = torch.tanh(inputs @ plant) + 0.05 * torch.randn(count, STATE)
    return inputs, targets


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    model, plant = WorldModel(), torch.randn(STATE + ACTION, STATE) / 5
    held_out = collect(plant, 2000)
    for generation in range(24):
        with phase(generation, "collect"):
            inputs, targets = collect(plant, 7500)
        with phase(generation, "train"):
            model.train(inputs, targets)
        with phase(generation, "validate"):
            model.validate(generation, *held_out)


if __name__ == "__main__":
    run()
