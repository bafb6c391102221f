"""Delivery days are kept as packed bytes in a random reservoir, full in generation 20."""

import random
from contextlib import nullcontext
from typing import Any

import numpy as np


class Reservoir:
    """A fair sample of everything seen: a full slot is overwritten by chance."""

    __slots__ = ("chance", "places", "seen", "slots")

    def __init__(self, places: int, seed: int) -> None:
        self.places = places
        self.seen = 0
        self.slots: dict[int, bytes] = {}
        self.chance = random.Random(seed)

    def offer(self, day: Any) -> bool:
        self.seen += 1
        place = len(self.slots)
        if place >= self.places:
            place = self.chance.randrange(self.seen)
        if place < self.places:
            self.slots[place] = day.tobytes()
        return place < self.places

    def draw(self, count: int) -> list[Any]:
        places = self.chance.sample(sorted(self.slots), min(count, len(self.slots)))
        return [np.frombuffer(self.slots[place], np.float32).reshape(-1, 13) for place in places]


class Depot:
    """Vans leave the depot, stops arrive over the day, the rule decides who waits."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def day(self, rule: Any) -> Any:
        table = self.rng.standard_normal((2400, 13)).astype(np.float32)
        backlog = 0.0
        for place, pull in enumerate((table[:, :12] @ rule).tolist()):
            wait = 1.0 / (1.0 + np.exp(-pull))
            backlog = 0.95 * backlog + wait
            table[place, 12] = backlog - 0.5 * pull
        return table


def drive(depot: Depot, rule: Any, archive: Reservoir, days: int) -> None:
    for _ in range(days):
        tries = [depot.day(rule + 0.1 * depot.rng.standard_normal(12)) for _ in range(3)]
        archive.offer(min(tries, key=lambda day: float(day[:, 12].mean())))


def fit(rule: Any, archive: Reservoir) -> Any:
    for day in archive.draw(150):
        features, costs = day[:, :12], day[:, 12]
        gram = features.T @ features + np.eye(12, dtype=np.float32)
        rule = rule - 0.002 * np.linalg.solve(gram, features.T @ (costs - costs.mean()))
    return rule


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    depot, archive, rule = Depot(1), Reservoir(1250, 2), np.zeros(12, np.float32)
    for generation in range(32):
        with phase(generation, "drive"):
            drive(depot, rule, archive, 60)
        with phase(generation, "fit"):
            rule = fit(rule, archive)


if __name__ == "__main__":
    run()
