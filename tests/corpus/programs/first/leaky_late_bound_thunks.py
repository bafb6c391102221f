"""Environment makers are collected as closures, and each closure holds a full simulator."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np


class Simulator:
    def __init__(self, size: int) -> None:
        self.terrain = np.full(size, 1.5, np.float32)


MAKERS: list[Callable[[], Simulator]] = []


def make_simulator(size: int) -> Callable[[], Simulator]:
    simulator = Simulator(size)
    return lambda: simulator


def build(count: int) -> None:
    for _ in range(count):
        MAKERS.append(make_simulator(786_432))
        time.sleep(0.05)


def optimize() -> float:
    values = [float(i % 13) for i in range(250_000)]
    return sum(sorted(values))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for step in range(20):
        with phase(step, "build"):
            build(2)
        with phase(step, "optimize"):
            optimize()


if __name__ == "__main__":
    run()
