"""Three actor processes keep their last episodes, up to a limit that is reached in generation 9."""

import multiprocessing
from collections import deque
from contextlib import nullcontext
from typing import Any

import numpy as np


def act(number: int, orders: Any, results: Any) -> None:
    rng = np.random.default_rng(number)
    recent: deque[Any] = deque(maxlen=20)
    while (weights := orders.get()) is not None:
        for _ in range(2):
            states = rng.standard_normal((1000, 64))
            recent.append(states)
            value = float(np.tanh(states @ weights).mean())
        results.put((number, value, len(recent)))


class ActorGroup:
    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("fork")
        self.results = context.Queue(maxsize=count)
        self.orders = [context.Queue(maxsize=1) for _ in range(count)]
        self.processes = [
            context.Process(target=act, args=(number, orders, self.results), daemon=True)
            for number, orders in enumerate(self.orders)
        ]
        for process in self.processes:
            process.start()

    def step(self, weights: Any) -> list[float]:
        for orders in self.orders:
            orders.put(weights)
        return [self.results.get()[1] for _ in self.orders]

    def stop(self) -> None:
        for orders, process in zip(self.orders, self.processes, strict=True):
            orders.put(None)
            process.join()


def learn(weights: Any, values: list[float], rng: Any) -> Any:
    samples = rng.standard_normal((6000, 64))
    for _ in range(12):
        weights = weights + 1e-4 * samples.T @ (np.tanh(samples @ weights) - np.mean(values))
        weights /= np.linalg.norm(weights)
    return weights


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, actors = np.random.default_rng(9), ActorGroup(3)
    weights = rng.standard_normal((64, 32))
    for generation in range(32):
        with phase(generation, "act"):
            values = actors.step(weights)
        with phase(generation, "learn"):
            weights = learn(weights, values, rng)
    actors.stop()


if __name__ == "__main__":
    run()
