"""A slow leak of 2 MiB a generation under batches of 0 to 40 MiB that come and go."""

import random
import time
from contextlib import nullcontext
from typing import Any


class Journal:
    def __init__(self) -> None:
        self.pages: list[bytes] = []

    def log(self, generation: int) -> None:
        for line in range(16):
            self.pages.append(bytes([generation % 250 + 1]) * (128 << 10))
            time.sleep(0.001 * (line % 2))


def train(rng: random.Random, held: list[bytearray]) -> None:
    held.clear()
    for _ in range(rng.randrange(10)):
        held.append(bytearray(b"b") * (4 << 20))
        time.sleep(0.005)
    time.sleep(0.1)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, journal = random.Random(5), Journal()
    held: list[bytearray] = []
    for generation in range(40):
        with phase(generation, "train"):
            train(rng, held)
        with phase(generation, "log"):
            journal.log(generation)


if __name__ == "__main__":
    run()
