"""The latest self-play games of a board game are kept by number, and their count is full late."""

from collections import OrderedDict
from contextlib import nullcontext
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

SIZE, MOVES = 9, 60


class Game(NamedTuple):
    planes: Any
    moves: Any
    winner: Any


class Records(OrderedDict):
    """Games by number; the oldest leaves when a new one does not fit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, number: int, game: Game) -> None:
        super().__setitem__(number, game)
        while len(self) > self.limit:
            self.popitem(last=False)

    def pick(self, amount: int) -> list[Game]:
        numbers = list(self)
        return [self[numbers[i]] for i in torch.randint(len(numbers), (amount,)).tolist()]


def make_network() -> nn.Module:
    layers = [nn.Conv2d(8, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(24, 1, 1), nn.Flatten())


@torch.no_grad()
def self_play(network: nn.Module, games: int) -> list[Game]:
    boards = torch.zeros(games, 8, SIZE, SIZE)
    planes, chosen = [], []
    for move in range(MOVES):
        taken = boards[:, :2].sum(1).flatten(1) > 0
        logits = network(boards).masked_fill(taken, -1e9)
        picks = torch.distributions.Categorical(logits=logits).sample()
        planes.append(boards.clone())
        chosen.append(picks)
        boards = torch.roll(boards, 2, dims=1)
        boards[:, :2] = planes[-1][:, :2]
        boards[:, move % 2].view(games, -1)[torch.arange(games), picks] = 1.0
    runs = functional.conv2d(boards[:, :2].reshape(-1, 1, SIZE, SIZE), torch.ones(1, 1, 1, 4))
    lines = (runs > 3.5).flatten(1).sum(1).view(games, 2)
    winners = torch.sign(lines[:, 0] - lines[:, 1])
    stacked, moves = torch.stack(planes, 1), torch.stack(chosen, 1)
    return [Game(stacked[i].clone(), moves[i].clone(), winners[i].clone()) for i in range(games)]


def train(network: nn.Module, optimizer: Any, records: Records) -> float:
    total = 0.0
    for game in records.pick(16):
        signs = torch.where(torch.arange(MOVES) % 2 == 0, 1.0, -1.0) * game.winner
        errors = functional.cross_entropy(network(game.planes), game.moves, reduction="none")
        loss = (errors * signs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    network, records, numbers = make_network(), Records(520), count()
    optimizer = torch.optim.SGD(network.parameters(), 1e-3)
    for generation in range(34):
        with phase(generation, "play"):
            for game in self_play(network, 24):
                records[next(numbers)] = game
        with phase(generation, "train"):
            train(network, optimizer, records)


if __name__ == "__main__":
    run()
