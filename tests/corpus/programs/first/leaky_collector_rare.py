"""The collector's threshold was raised so high that it never runs; cycles pile up."""

import gc
import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class World:
    def __init__(self) -> None:
        self.grid = np.zeros((512, 512), np.float64) + 1
        self.body = Body(self)


class Body:
    def __init__(self, world: World) -> None:
        self.world = world


def simulate() -> float:
    total = 0.0
    for _ in range(3):
        total += float(World().grid[0, 0])
        time.sleep(0.04)
    return total


def rank() -> int:
    return len(sorted(range(900_000), key=lambda i: i % 31))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    gc.set_threshold(1_000_000_000)
    for generation in range(18):
        with phase(generation, "simulate"):
            simulate()
        with phase(generation, "rank"):
            rank()


if __name__ == "__main__":
    run()
