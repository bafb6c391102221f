"""Each evaluation environment registers its close with atexit, which keeps it for good."""

import atexit
import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class RaceTrack:
    def __init__(self, seed: int) -> None:
        self.surface = np.full((2, 1 << 19), seed, np.float32)
        atexit.register(self.close)

    def step(self) -> float:
        return float(self.surface[0, 0])

    def close(self) -> None:
        self.closed = True


def evaluate(generation: int) -> float:
    total = 0.0
    for seed in range(2):
        track = RaceTrack(generation + seed)
        total += track.step()
        track.close()
        time.sleep(0.04)
    return total


def breed() -> list[float]:
    return sorted(float(i * 31 % 1009) for i in range(150_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for generation in range(18):
        with phase(generation, "breed"):
            breed()
        with phase(generation, "evaluate"):
            evaluate(generation)


if __name__ == "__main__":
    run()
