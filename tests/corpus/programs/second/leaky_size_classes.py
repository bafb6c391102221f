"""Records grow a little each generation; the few that are kept hold the pools of all the others."""

import time
from contextlib import nullcontext
from typing import Any

GENERATION_BYTES = 8 << 20


def explore(generation: int, kept: list[bytes]) -> int:
    size = 100 + 16 * generation
    records = [bytes([step % 250]) * size for step in range(GENERATION_BYTES // (size + 40))]
    kept += records[::40]
    time.sleep(0.12)
    return len(records)


def train() -> int:
    time.sleep(0.05)
    return sum(i % 5 for i in range(400_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    kept: list[bytes] = []
    for generation in range(20):
        with phase(generation, "explore"):
            explore(generation, kept)
        with phase(generation, "train"):
            train()


if __name__ == "__main__":
    run()
