"""A rollout is collected step by step, stacked, used and dropped."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


def collect(rng: Any) -> list[Any]:
    steps = []
    for _ in range(120):
        steps.append(rng.random((8, 4096), np.float32))
        time.sleep(0.0005)
    return steps


def update(steps: list[Any]) -> float:
    batch = np.stack(steps)
    time.sleep(0.04)
    return float(batch.std())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(29)
    for generation in range(20):
        with phase(generation, "collect"):
            steps = collect(rng)
        with phase(generation, "update"):
            update(steps)


if __name__ == "__main__":
    run()
