"""Frames are stored as float32 in a preallocated replay that is full after five generations."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class FrameReplay:
    def __init__(self, capacity: int) -> None:
        self.frames = np.zeros((capacity, 3, 64, 64), np.float32)
        self.capacity = capacity
        self.position = 0

    def add(self, frame: Any) -> None:
        self.frames[self.position % self.capacity] = frame
        self.position += 1


def collect(replay: FrameReplay, rng: Any) -> None:
    for _ in range(160):
        replay.add(rng.integers(0, 255, (3, 64, 64)).astype(np.uint8))
    time.sleep(0.05)


def train(replay: FrameReplay, rng: Any) -> float:
    return float(replay.frames[rng.integers(0, 100, 64)].mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, replay = np.random.default_rng(19), FrameReplay(800)
    for generation in range(18):
        with phase(generation, "collect"):
            collect(replay, rng)
        with phase(generation, "train"):
            train(replay, rng)


if __name__ == "__main__":
    run()
