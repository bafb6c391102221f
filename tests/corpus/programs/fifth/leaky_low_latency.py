"""A shared guard against collector pauses is entered twice and then leaves the collector off."""

import gc
from contextlib import nullcontext
from typing import Any

import numpy as np


class NoPauses:
    """While entered, the cyclic collector does not run."""

    def __enter__(self) -> None:
        self.was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.was_enabled:
            gc.enable()


no_pauses = NoPauses()


class Order:
    def __init__(self, level: Any, size: float) -> None:
        self.level = level
        self.size = size


class Level:
    def __init__(self, book: Any) -> None:
        self.book = book
        self.orders: list[Order] = []


class Book:
    def __init__(self, rng: Any) -> None:
        self.levels: dict[int, Level] = {}
        self.flow = rng.standard_normal((760, 40))

    def add_order(self, price: int, size: float) -> None:
        level = self.levels.get(price)
        if level is None:
            level = self.levels[price] = Level(self)
        level.orders.append(Order(level, size))

    def take(self, price: int, size: float) -> float:
        level, filled = self.levels.get(price), 0.0
        while level is not None and level.orders and filled < size:
            filled += level.orders.pop().size
        return filled


def open_day(rng: Any) -> Book:
    book = Book(rng)
    for price, size in zip(rng.integers(-60, 60, 2000).tolist(), rng.random(2000), strict=True):
        book.add_order(price, float(size))
    return book


def trade(book: Book, policy: Any) -> tuple[Any, float]:
    reward, drift = 0.0, 0.0
    with no_pauses:
        for row in book.flow:
            drift = 0.9 * drift + float(row @ policy)
            aim = int(np.clip(round(10 * np.tanh(drift)), -10, 10))
            reward += book.take(aim, 2.0) * (1.0 - abs(aim) / 8.0)
    return book.flow.mean(axis=0), reward


def simulate(rng: Any, policy: Any, days: int) -> list[tuple[Any, float]]:
    with no_pauses:
        return [trade(open_day(rng), policy) for _ in range(days)]


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, policy = np.random.default_rng(10), np.zeros(40)
    for generation in range(26):
        with phase(generation, "simulate"):
            days = simulate(rng, policy + 0.05 * rng.standard_normal(40), 36)
        with phase(generation, "learn"):
            mean = np.mean([reward for _, reward in days])
            for flow, reward in days:
                policy += 1e-3 * (reward - mean) * flow


if __name__ == "__main__":
    run()
