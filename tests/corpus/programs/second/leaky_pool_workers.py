"""The workers of a process pool remember every task they have seen."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from typing import Any

SEEN: list[bytearray] = []


def score(task: int) -> int:
    SEEN.append(bytearray([task % 250 + 1]) * (1 << 20))
    time.sleep(0.02)
    return len(SEEN)


def evaluate(pool: ProcessPoolExecutor, generation: int) -> int:
    return sum(pool.map(score, range(generation * 8, generation * 8 + 8)))


def select() -> list[int]:
    time.sleep(0.06)
    return sorted(i * 7919 % 10_007 for i in range(200_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        for generation in range(18):
            with phase(generation, "evaluate"):
                evaluate(pool, generation)
            with phase(generation, "select"):
                select()


if __name__ == "__main__":
    run()
