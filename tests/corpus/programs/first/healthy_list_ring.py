"""A plain list as a ring: appends up to its capacity, then replaces the oldest."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class ListReplay:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.storage: list[Any] = []
        self.position = 0

    def push(self, item: Any) -> None:
        if len(self.storage) < self.capacity:
            self.storage.append(item)
        else:
            self.storage[self.position] = item
        self.position = (self.position + 1) % self.capacity


def gather(replay: ListReplay) -> None:
    for step in range(120):
        replay.push((np.full(5000, float(step)), step))
        time.sleep(0.001)


def fit() -> Any:
    return np.linalg.inv(np.random.default_rng(0).random((300, 300)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    replay = ListReplay(1500)
    for iteration in range(24):
        with phase(iteration, "gather"):
            gather(replay)
        with phase(iteration, "fit"):
            for _ in range(8):
                fit()


if __name__ == "__main__":
    run()
