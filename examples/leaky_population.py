"""A small evolutionary training whose evaluation keeps every environment it makes.

The replay buffers fill to their capacity, the environments leak: the page tells which is which.
"""

import multiprocessing
import time

import numpy as np

import ramledger

GENERATIONS = 24
POPULATION = 4
CAPACITY = 6_000


class TradingEnvironment:
    """Holds its own copy of the prices."""

    def __init__(self, seed: int) -> None:
        self.prices = np.random.default_rng(seed).normal(size=(200_000, 5)).astype(np.float32)

    def play(self, weights: np.ndarray) -> float:
        return float((self.prices @ weights).mean())


class Trainer:
    """Weights, a replay buffer of its own, and the environments it was evaluated in."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.weights = self.random.normal(size=5).astype(np.float32)
        self.replay = np.zeros((CAPACITY, 1_024), np.float32)
        self.filled = 0
        self.envs: list[TradingEnvironment] = []
        self.fitness = 0.0

    def evaluate(self, generation: int) -> None:
        env = TradingEnvironment(generation)
        self.envs.append(env)  # the leak: nobody needs it after this call
        self.fitness = env.play(self.weights)
        time.sleep(0.05)

    def train(self) -> None:
        rows = min(400, CAPACITY - self.filled)
        self.replay[self.filled : self.filled + rows] = self.random.normal(size=(rows, 1_024))
        self.filled += rows
        batch = self.replay[self.random.integers(0, self.filled, 1_500)].copy()
        self.weights += 0.01 * batch[:, :5].mean(0)
        time.sleep(0.08)


def simulate(size: int) -> None:
    """A worker that holds a market of its own."""
    market = np.ones(size, np.float32)
    while market.sum():
        time.sleep(0.5)


def main() -> None:
    ledger = ramledger.record()
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=simulate, args=(size,), daemon=True)
        for size in (2_000_000, 2_000_000, 9_000_000)
    ]
    for worker in workers:
        worker.start()
    population = [Trainer(seed) for seed in range(POPULATION)]
    for generation in range(GENERATIONS):
        with ledger.phase("evaluate", generation=generation):
            for trainer in population:
                trainer.evaluate(generation)
        with ledger.phase("train", generation=generation):
            for trainer in population:
                trainer.train()
        with ledger.phase("evolve", generation=generation):
            population.sort(key=lambda trainer: trainer.fitness)
            population[0].weights = population[-1].weights.copy()
            time.sleep(0.1)
    for worker in workers:
        worker.terminate()


if __name__ == "__main__":
    main()
