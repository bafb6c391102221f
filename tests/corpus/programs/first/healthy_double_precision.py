"""A full replay of float64 that stores each observation twice: no leak, but waste."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Replay:
    def __init__(self, capacity: int) -> None:
        self.observations = np.ones((capacity, 512), np.float64)
        self.next_observations = np.ones((capacity, 512), np.float64)
        self.at = 0

    def add(self, observation: Any) -> None:
        self.observations[self.at] = observation
        self.next_observations[self.at] = observation
        self.at = (self.at + 1) % len(self.observations)


def collect(replay: Replay) -> None:
    for step in range(200):
        replay.add(np.full(512, step * 0.1))
        time.sleep(0.0005)


def learn(replay: Replay) -> float:
    return float(replay.observations[:2000].mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    replay = Replay(10_000)
    for generation in range(18):
        with phase(generation, "collect"):
            collect(replay)
        with phase(generation, "learn"):
            for _ in range(10):
                learn(replay)


if __name__ == "__main__":
    run()
