"""A replay fills until generation 14; from generation 8 on,
snapshots of weights pile up beside it.
"""

import time
from collections import deque
from contextlib import nullcontext
from typing import Any

import numpy as np


def collect(replay: deque[Any], rng: Any) -> None:
    for _ in range(100):
        replay.append((rng.random(7168, np.float32), 0.5))
        time.sleep(0.0008)


class League:
    def __init__(self) -> None:
        self.snapshots: dict[int, Any] = {}

    def snapshot(self, weights: Any, generation: int) -> None:
        if generation >= 8:
            self.snapshots[generation] = weights + generation
        time.sleep(0.03)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, league = np.random.default_rng(17), League()
    replay: deque[Any] = deque(maxlen=1400)
    weights = np.ones(5 << 17)
    for generation in range(28):
        with phase(generation, "collect"):
            collect(replay, rng)
        with phase(generation, "snapshot"):
            league.snapshot(weights, generation)


if __name__ == "__main__":
    run()
