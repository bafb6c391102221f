"""Workers grow, and are replaced after a number of tasks."""

import multiprocessing
import time
from contextlib import nullcontext
from typing import Any

SEEN: list[bytearray] = []


def play(task: int) -> int:
    SEEN.append(bytearray([task % 250 + 1]) * (2 << 20))
    time.sleep(0.01)
    return len(SEEN)


def evaluate(pool: Any, generation: int) -> int:
    return sum(pool.map(play, range(generation * 8, generation * 8 + 8), chunksize=1))


def train() -> int:
    return sum(i % 7 for i in range(900_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    context = multiprocessing.get_context("fork")
    with context.Pool(2, maxtasksperchild=12) as pool:
        for generation in range(20):
            with phase(generation, "evaluate"):
                evaluate(pool, generation)
            with phase(generation, "train"):
                train()


if __name__ == "__main__":
    run()
