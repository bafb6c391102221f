"""A memo of returns with a maxsize: grows, then evicts."""

import time
from contextlib import nullcontext
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=2000)
def features(state: int) -> bytes:
    return bytes([state % 250 + 1]) * 40_000


def visit(generation: int) -> int:
    total = 0
    for state in range(generation * 200, generation * 200 + 260):
        total += len(features(state))
        time.sleep(0.0004)
    return total


def plan() -> int:
    return sum(i % 6 for i in range(900_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for generation in range(22):
        with phase(generation, "visit"):
            visit(generation)
        with phase(generation, "plan"):
            plan()


if __name__ == "__main__":
    run()
