"""A market maker notes every fill in a list that nobody reads,
while its replay ring still fills.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(slots=True, frozen=True)
class Fill:
    step: int
    side: str
    price: float
    size: float
    fee: float


class ReplayRing:
    def __init__(self, capacity: int, width: int) -> None:
        self.rows = np.zeros((capacity, width), np.float32)
        self.written = 0

    def add(self, rows: Any) -> None:
        places = (self.written + np.arange(len(rows))) % len(self.rows)
        self.rows[places] = rows
        self.written += len(rows)

    def batch(self, rng: Any, size: int) -> Any:
        return self.rows[rng.integers(0, min(self.written, len(self.rows)), size)]


class Exchange:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.fills: list[Fill] = []
        self.clock = 0
        self.mid = 100.0
        self.inventory = 0.0

    def settle(self, side: str, price: float, size: float) -> float:
        self.fills.append(Fill(self.clock, side, price, size, 0.0002 * price * size))
        sign = 1.0 if side == "buy" else -1.0
        self.inventory += sign * size
        return -sign * price * size

    def step(self, spread: float, shock: float, demand: float) -> float:
        self.clock += 1
        self.mid += shock - 0.001 * (self.mid - 100.0)
        skew = 0.01 * self.inventory
        cash = 0.0
        if demand > spread - skew:
            cash += self.settle("sell", self.mid + spread - skew, demand)
        if demand > spread + skew:
            cash += self.settle("buy", self.mid - spread - skew, demand * 0.9)
        return cash + 0.001 * self.inventory * self.mid


def quote(exchange: Exchange, weights: Any, ring: ReplayRing) -> float:
    shocks = exchange.rng.normal(0.0, 0.05, 16_000).tolist()
    demands = exchange.rng.exponential(0.6, 16_000).tolist()
    states = exchange.rng.standard_normal((16_000, 128)).astype(np.float32)
    spreads = (0.1 + 0.05 * np.tanh(states @ weights)).tolist()
    gains = [exchange.step(*row) for row in zip(spreads, shocks, demands, strict=True)]
    states[:, 0] = gains
    ring.add(states)
    return sum(gains)


def fit(ring: ReplayRing, weights: Any, rng: Any) -> None:
    for _ in range(320):
        batch = ring.batch(rng, 2048)
        features = np.tanh(batch[:, 1:])
        gradient = features.T @ (features @ weights[1:] - np.sign(batch[:, 0]))
        weights[1:] -= 1e-5 * gradient


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    exchange, ring = Exchange(3), ReplayRing(190_000, 128)
    weights = np.zeros(128, np.float32)
    for generation in range(32):
        with phase(generation, "quote"):
            quote(exchange, weights, ring)
        with phase(generation, "fit"):
            fit(ring, weights, exchange.rng)


if __name__ == "__main__":
    run()
