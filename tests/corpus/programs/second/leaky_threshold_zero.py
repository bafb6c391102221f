"""gc.set_threshold(0) for speed; environments and their wrappers refer to each other."""

import gc
import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Arena:
    def __init__(self) -> None:
        self.grid = np.ones((3, 786_432), np.uint8)
        self.wrapper: Any = None


class Wrapper:
    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        arena.wrapper = self


def make() -> Wrapper:
    return Wrapper(Arena())


def rollout(count: int) -> int:
    total = 0
    for _ in range(count):
        total += int(make().arena.grid[0, 0])
        time.sleep(0.025)
    return total


def fit() -> float:
    return float(np.linalg.norm(np.ones((300, 300)) @ np.ones((300, 300))))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    gc.set_threshold(0)
    for generation in range(18):
        with phase(generation, "rollout"):
            rollout(4)
        with phase(generation, "fit"):
            for _ in range(12):
                fit()


if __name__ == "__main__":
    run()
