"""Rollouts of very different length run in threads; their results are reduced and dropped."""

import queue
import random
import threading
from contextlib import nullcontext
from typing import Any

import numpy as np


class RolloutThread(threading.Thread):
    def __init__(self, tasks: "queue.Queue[int | None]", results: "queue.Queue[float]") -> None:
        super().__init__(daemon=True)
        self.tasks, self.results = tasks, results

    def run(self) -> None:
        while (length := self.tasks.get()) is not None:
            rng = np.random.default_rng(length)
            steps = [rng.standard_normal(250) for _ in range(length)]
            stacked = np.stack(steps)
            self.results.put(float(np.abs(stacked).mean(axis=0) @ np.ones(250)))


def dispatch(tasks: Any, results: Any, rng: random.Random) -> list[float]:
    count = 6
    for _ in range(count):
        tasks.put(rng.choice((60, 250, 700, 2400)))
    return [results.get() for _ in range(count)]


def learn(returns: list[float]) -> float:
    kernel = np.exp(-np.abs(np.subtract.outer(np.arange(700.0), np.arange(700.0))) / 50)
    solution = np.linalg.solve(kernel + np.eye(700), np.full(700, np.mean(returns)))
    return float(solution.sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    tasks: queue.Queue[int | None] = queue.Queue()
    results: queue.Queue[float] = queue.Queue()
    threads = [RolloutThread(tasks, results) for _ in range(3)]
    for thread in threads:
        thread.start()
    rng = random.Random(11)
    for generation in range(40):
        with phase(generation, "dispatch"):
            returns = dispatch(tasks, results, rng)
        with phase(generation, "learn"):
            for _ in range(3):
                learn(returns)
    for _ in threads:
        tasks.put(None)


if __name__ == "__main__":
    run()
