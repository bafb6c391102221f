"""functools.cache on a method keeps every environment that ever called it."""

import functools
import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Maze:
    def __init__(self, seed: int) -> None:
        self.walls = np.random.default_rng(seed).integers(0, 2, (2048, 1024), dtype=np.uint8)

    @functools.cache  # noqa: B019 - this is the leak
    def distance(self, x: int, y: int) -> int:
        return int(self.walls[x % 2048, y % 1024]) + abs(x - y)


def evaluate(seed: int) -> int:
    total = 0
    for offset in range(4):
        maze = Maze(seed * 4 + offset)
        total += sum(maze.distance(x, x + 3) for x in range(64))
        time.sleep(0.03)
    return total


def learn() -> float:
    return float(sum(i * i % 11 for i in range(400_000)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for number in range(18):
        with phase(number, "evaluate"):
            evaluate(number)
        with phase(number, "learn"):
            learn()


if __name__ == "__main__":
    run()
