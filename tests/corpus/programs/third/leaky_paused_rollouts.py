"""Rollouts are generators; those that a scheduler gives up are never closed.
Batches jitter beside.
"""

import random
from collections import deque
from collections.abc import Generator
from contextlib import nullcontext
from typing import Any

import numpy as np


def rollout(seed: int, length: int) -> Generator[float, None, None]:
    rng = np.random.default_rng(seed)
    heights = rng.standard_normal((256, 192))
    position = 0
    for _ in range(length):
        position = (position + int(rng.integers(7))) % 256
        yield float(heights[position].sum())


class Scheduler:
    def __init__(self) -> None:
        self.ready: deque[Generator[float, None, None]] = deque()
        self.suspended: deque[Generator[float, None, None]] = deque()
        self.seed = 0

    def schedule(self, fresh: int) -> float:
        for _ in range(fresh):
            self.ready.append(rollout(self.seed, 40 if self.seed % 3 else 4000))
            self.seed += 1
        total = 0.0
        while self.ready:
            episode = self.ready.popleft()
            for turn, reward in enumerate(episode):
                total += reward
                if turn == 400:
                    self.suspended.append(episode)  # to be resumed when there is time
                    break
        return total


def train(rng: random.Random) -> float:
    rows = rng.randrange(200, 5000)
    batch = np.random.default_rng(rows).standard_normal((rows, 400))
    return float(np.tanh(batch @ batch[:60].T).sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    scheduler, rng = Scheduler(), random.Random(15)
    for generation in range(40):
        with phase(generation, "schedule"):
            scheduler.schedule(12)
        with phase(generation, "train"):
            for _ in range(4):
                train(rng)


if __name__ == "__main__":
    run()
