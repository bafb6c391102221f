"""Rollouts run in a thread pool; their futures, and so their results, stay in a list."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np


def rollout(seed: int) -> Any:
    time.sleep(0.02)
    return np.random.default_rng(seed).random((60, 4096))


class Collector:
    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2)
        self.submitted: list[Future[Any]] = []

    def gather(self, generation: int) -> float:
        batch = [self.pool.submit(rollout, generation * 4 + i) for i in range(4)]
        self.submitted += batch
        return float(sum(future.result()[0, 0] for future in batch))


def update() -> float:
    return float(np.linalg.svd(np.ones((220, 220)))[1][0])


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    collector = Collector()
    for generation in range(18):
        with phase(generation, "gather"):
            collector.gather(generation)
        with phase(generation, "update"):
            for _ in range(6):
                update()
    collector.pool.shutdown()


if __name__ == "__main__":
    run()
