"""Novelty search keeps the behavior of every individual that ever lived, by its id."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np

ARCHIVE: dict[int, Any] = {}


def mutate(population: Any, rng: Any) -> Any:
    for _ in range(12):
        population = population + 0.01 * rng.standard_normal(population.shape)
    return population


def score(population: Any, born: int) -> list[float]:
    scores: list[float] = []
    for row in population:
        behavior = np.repeat(row, 24)
        ARCHIVE[born + len(scores)] = behavior
        scores.append(float(behavior.std()))
        time.sleep(0.004)
    return scores


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(1)
    population = rng.standard_normal((32, 1024))
    generation = 0
    while generation < 18:
        with phase(generation, "mutate"):
            population = mutate(population, rng)
        with phase(generation, "score"):
            score(population, generation * 32)
        generation += 1


if __name__ == "__main__":
    run()
