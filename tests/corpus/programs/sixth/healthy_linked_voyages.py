"""Voyages hang on a linked list that drops its oldest from generation 17 on."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np


class Voyage:
    __slots__ = ("later", "profit", "states")

    def __init__(self, states: Any, profit: float) -> None:
        self.states, self.profit = states, profit
        self.later: Voyage | None = None


class Logbook:
    def __init__(self, limit: int) -> None:
        self.first: Voyage | None = None
        self.last: Voyage | None = None
        self.limit, self.count = limit, 0

    def add(self, voyage: Voyage) -> None:
        if self.last is None:
            self.first = voyage
        else:
            self.last.later = voyage
        self.last = voyage
        self.count += 1
        if self.count > self.limit and self.first is not None:
            self.first = self.first.later
            self.count -= 1

    def __iter__(self) -> Iterator[Voyage]:
        voyage = self.first
        while voyage is not None:
            yield voyage
            voyage = voyage.later


def sail(weights: Any, rng: Any, days: int) -> Voyage:
    states = np.empty((days, 32))
    state, profit = rng.normal(size=32), 0.0
    for day in range(days):
        speed = np.tanh(weights @ state)
        state = 0.95 * state + 0.1 * rng.normal(size=32) + 0.01 * speed
        profit += speed * state[0] - 0.1 * speed * speed
        states[day] = state
    return Voyage(states, float(profit))


def collect(logbook: Logbook, weights: Any, rng: Any) -> None:
    for _ in range(28):
        logbook.add(sail(weights + 0.1 * rng.normal(size=32), rng, 1200))


def learn(logbook: Logbook, weights: Any) -> Any:
    best = max(logbook, key=lambda voyage: voyage.profit)
    return 0.9 * weights + 0.1 * best.states.mean(axis=0)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, logbook, weights = np.random.default_rng(11), Logbook(28 * 17), np.zeros(32)
    for generation in range(29):
        with phase(generation, "collect"):
            collect(logbook, weights, rng)
        with phase(generation, "learn"):
            weights = learn(logbook, weights)


if __name__ == "__main__":
    run()
