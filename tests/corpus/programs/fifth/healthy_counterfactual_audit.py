"""Every sixth generation an audit of the recommender builds all scores of all users at once."""

from contextlib import nullcontext
from typing import Any

import numpy as np


class Factors:
    """Matrix factorization that is trained from clicks."""

    def __init__(self, users: int, items: int, rank: int, rng: Any) -> None:
        self.users = 0.1 * rng.standard_normal((users, rank))
        self.items = 0.1 * rng.standard_normal((items, rank))

    def scores(self, users: Any) -> Any:
        return self.users[users] @ self.items.T

    def step(self, users: Any, items: Any, clicks: Any) -> None:
        left, right = self.users[users], self.items[items]
        errors = (clicks - (left * right).sum(axis=1))[:, None]
        np.add.at(self.users, users, 0.02 * errors * right)
        np.add.at(self.items, items, 0.02 * errors * left)


class Population:
    def __init__(self, users: int, items: int, rng: Any) -> None:
        self.rng = rng
        self.tastes = rng.standard_normal((users, 6))
        self.traits = rng.standard_normal((items, 6))

    def click(self, users: Any, items: Any) -> Any:
        pull = (self.tastes[users] * self.traits[items]).sum(axis=1)
        return (pull > self.rng.normal(1.5, 1.0, len(users))).astype(float)


def recommend(factors: Factors, world: Population, visits: int) -> tuple[Any, Any, Any]:
    users = world.rng.integers(0, len(world.tastes), visits)
    items = np.empty(visits, np.int64)
    for start in range(0, visits, 500):
        scores = factors.scores(users[start : start + 500])
        scores += 0.2 * world.rng.gumbel(size=scores.shape)
        items[start : start + 500] = scores.argmax(axis=1)
    return users, items, world.click(users, items)


def train(factors: Factors, log: tuple[Any, Any, Any], rng: Any) -> None:
    users, items, clicks = log
    for _ in range(12):
        rows = rng.permutation(len(users))[:3000]
        factors.step(users[rows], items[rows], clicks[rows])


def audit(factors: Factors) -> float:
    scores = factors.scores(np.arange(len(factors.users)))
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    return float(-(chances * np.log(chances + 1e-12)).sum(axis=1).mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(19)
    world, factors = Population(6000, 1500, rng), Factors(6000, 1500, 32, rng)
    for generation in range(30):
        with phase(generation, "recommend"):
            log = recommend(factors, world, 6500)
        with phase(generation, "train"):
            train(factors, log, rng)
        with phase(generation, "audit"):
            if generation % 6 == 5:
                audit(factors)


if __name__ == "__main__":
    run()
