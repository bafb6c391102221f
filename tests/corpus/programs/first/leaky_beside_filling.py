"""A bounded replay fills up, and an unbounded table of targets grows beside it."""

import time
from collections import deque
from contextlib import nullcontext
from typing import Any

import numpy as np


class Agent:
    def __init__(self) -> None:
        self.replay: deque[Any] = deque(maxlen=1200)
        self.targets: dict[int, Any] = {}

    def collect(self) -> None:
        for step in range(80):
            self.replay.append(np.full((64, 512), step, np.uint8))
            time.sleep(0.001)

    def update(self, generation: int) -> None:
        for batch in range(10):
            self.targets[generation * 10 + batch] = np.full(1 << 16, 0.5)
            time.sleep(0.008)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    agent = Agent()
    for generation in range(24):
        with phase(generation, "collect"):
            agent.collect()
        with phase(generation, "update"):
            agent.update(generation)


if __name__ == "__main__":
    run()
