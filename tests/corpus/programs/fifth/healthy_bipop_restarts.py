"""An evolution strategy restarts in turn with a large and a small population of random size."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

HORIZON, STATES = 40, 24
GENES = STATES * STATES + STATES * 4


@dataclass
class Strategy:
    """One restart: the mean, the step size and the last sampled candidates."""

    mean: Any
    sigma: float
    size: int
    left: int
    candidates: Any = None

    def sample(self, rng: Any) -> None:
        self.candidates = self.mean + self.sigma * rng.standard_normal((self.size, GENES))

    def update(self, fitness: Any) -> None:
        elite = self.candidates[np.argsort(fitness)[-self.size // 4 :]]
        self.mean = 0.5 * self.mean + 0.5 * elite.mean(axis=0)
        self.sigma *= 0.9
        self.left -= 1


class Restarts:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.number = 0
        self.strategy = self.fresh()

    def fresh(self) -> Strategy:
        large = self.number % 2 == 0
        self.number += 1
        size = int(self.rng.integers(12_000, 16_000) if large else self.rng.integers(600, 2000))
        return Strategy(np.zeros(GENES), 0.3, size, int(self.rng.integers(1, 4)))

    def next(self) -> Strategy:
        if self.strategy.left == 0:
            self.strategy = self.fresh()
        return self.strategy


def simulate(candidates: Any, rng: Any) -> Any:
    """Stock levels of a warehouse under a linear-tanh ordering rule for each candidate."""
    start = rng.standard_normal(STATES)
    fitness = np.empty(len(candidates))
    for first in range(0, len(candidates), 250):
        block = candidates[first : first + 250]
        mixing = block[:, : STATES * STATES].reshape(-1, STATES, STATES)
        stock, total = np.tile(start, (len(block), 1)), np.zeros(len(block))
        for _ in range(HORIZON):
            orders = np.tanh(np.einsum("nij,nj->ni", mixing, stock))
            stock = 0.9 * stock + orders - 0.1
            total -= np.square(stock).sum(axis=1)
        fitness[first : first + 250] = total
    return fitness


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    restarts = Restarts(23)
    for generation in range(34):
        with phase(generation, "sample"):
            strategy = restarts.next()
            strategy.sample(restarts.rng)
        with phase(generation, "simulate"):
            fitness = simulate(strategy.candidates, restarts.rng)
        with phase(generation, "update"):
            strategy.update(fitness)


if __name__ == "__main__":
    run()
