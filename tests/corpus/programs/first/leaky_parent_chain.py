"""Each genome knows its parent, so the whole line of ancestors stays alive."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Genome:
    def __init__(self, weights: Any, parent: "Genome | None") -> None:
        self.weights = weights
        self.parent = parent
        self.fitness = 0.0


def child(parent: Genome, rng: Any) -> Genome:
    return Genome(parent.weights + rng.normal(0, 0.01), parent)


def breed(population: list[Genome], rng: Any) -> list[Genome]:
    best = max(population, key=lambda genome: genome.fitness)
    return [child(parent, rng) for parent in (best, best, *population[2:])]


def play(population: list[Genome]) -> None:
    for genome in population:
        genome.fitness = float(np.sort(genome.weights).mean())
    time.sleep(0.1)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(3)
    population = [Genome(np.ones(3 * 2**17), None) for _ in range(4)]
    for generation in range(18):
        with phase(generation, "play"):
            play(population)
        with phase(generation, "breed"):
            population = breed(population, rng)


if __name__ == "__main__":
    run()
