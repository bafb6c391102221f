"""Every fifth generation the whole state is pickled in memory, for a moment."""

import pickle
import time
from contextlib import nullcontext
from typing import Any

import numpy as np


def evolve(population: list[Any]) -> None:
    for weights in population:
        weights *= 0.999
    time.sleep(0.12)


def checkpoint(population: list[Any]) -> int:
    document = pickle.dumps(population)
    time.sleep(0.15)
    return len(document)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    population = [np.ones(1 << 20) for _ in range(12)]
    for generation in range(20):
        with phase(generation, "evolve"):
            evolve(population)
        if generation % 5 == 4:
            with phase(generation, "checkpoint"):
                checkpoint(population)


if __name__ == "__main__":
    run()
