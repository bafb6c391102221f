"""A deque with maxlen fills within 14 generations and then turns over."""

import time
from collections import deque
from contextlib import nullcontext
from typing import Any

import numpy as np


def collect(replay: deque[Any], rng: Any) -> None:
    for _ in range(100):
        observation = rng.random((84, 84), np.float32)
        replay.append((observation, 1, 0.5, False))
        time.sleep(0.001)


def learn(replay: deque[Any]) -> float:
    return float(sum(item[0].mean() for item in list(replay)[:400]))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    replay: deque[Any] = deque(maxlen=1400)
    rng = np.random.default_rng(0)
    for generation in range(22):
        with phase(generation, "collect"):
            collect(replay, rng)
        with phase(generation, "learn"):
            learn(replay)


if __name__ == "__main__":
    run()
