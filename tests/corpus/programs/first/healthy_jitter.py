"""Batches of random size come and go; nothing stays."""

import random
import time
from contextlib import nullcontext
from typing import Any


def train(rng: random.Random, held: list[bytearray]) -> None:
    held.clear()
    for _ in range(rng.randrange(2, 12)):
        held.append(bytearray(b"b") * (3 << 20))
    time.sleep(0.12)


def evaluate() -> int:
    return sum(i % 3 for i in range(600_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = random.Random(8)
    held: list[bytearray] = []
    for generation in range(26):
        with phase(generation, "train"):
            train(rng, held)
        with phase(generation, "evaluate"):
            evaluate()


if __name__ == "__main__":
    run()
