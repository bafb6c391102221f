"""The population grows for three generations and shrinks again, all the time."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


def resize(population: list[Any], generation: int) -> None:
    size = 6 + 4 * (generation % 4)
    del population[size:]
    while len(population) < size:
        population.append(np.full(300_000, generation, np.float64))


def evaluate(population: list[Any]) -> float:
    time.sleep(0.1)
    return float(sum(member.sum() for member in population))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    population: list[Any] = []
    for generation in range(24):
        with phase(generation, "resize"):
            resize(population, generation)
        with phase(generation, "evaluate"):
            evaluate(population)


if __name__ == "__main__":
    run()
