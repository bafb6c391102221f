"""The first generations import, build tables and open caches; then nothing more."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Planner:
    def __init__(self) -> None:
        self.tables: dict[int, Any] = {}

    def table(self, number: int) -> Any:
        if number not in self.tables:
            self.tables[number] = np.full((1200, 1200), float(number))
        return self.tables[number]


def plan(planner: Planner, generation: int) -> float:
    time.sleep(0.1)
    return float(planner.table(min(generation, 3)).sum())


def act() -> int:
    return sum(i % 3 for i in range(900_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    planner = Planner()
    for generation in range(20):
        with phase(generation, "plan"):
            plan(planner, generation)
        with phase(generation, "act"):
            act()


if __name__ == "__main__":
    run()
