"""One long evaluation builds many small objects and frees them; malloc keeps the room."""

import time
from contextlib import nullcontext
from typing import Any


def evaluate(generation: int) -> int:
    count = 400_000 if generation == 6 else 4000
    trajectory = [(step, step * 0.5, [step]) for step in range(count)]
    time.sleep(0.1)
    return len(trajectory)


def learn() -> int:
    return sum(i % 3 for i in range(900_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for generation in range(20):
        with phase(generation, "evaluate"):
            evaluate(generation)
        with phase(generation, "learn"):
            learn()


if __name__ == "__main__":
    run()
