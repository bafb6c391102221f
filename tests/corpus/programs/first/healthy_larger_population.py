"""From generation 9 on the population is twice as large."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Member:
    def __init__(self, seed: int) -> None:
        self.weights = np.random.default_rng(seed).random(400_000)


def evaluate(population: list[Member]) -> list[float]:
    time.sleep(0.1)
    return [float(member.weights.mean()) for member in population]


def evolve(population: list[Member], generation: int) -> None:
    wanted = 10 if generation < 9 else 20
    population.pop(0)
    while len(population) < wanted:
        population.append(Member(generation + len(population)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    population = [Member(seed) for seed in range(10)]
    for generation in range(22):
        with phase(generation, "evaluate"):
            evaluate(population)
        with phase(generation, "evolve"):
            evolve(population, generation)


if __name__ == "__main__":
    run()
