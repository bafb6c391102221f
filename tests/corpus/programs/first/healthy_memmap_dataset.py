"""Offline data is read through a memory map: file pages come in, and can go."""

import tempfile
import time
from contextlib import nullcontext
from typing import Any

import numpy as np


def write_dataset(path: str, rows: int) -> None:
    with open(path, "wb") as file:
        for row in range(rows):
            file.write(bytes([row % 250]) * (1 << 20))


def load(data: Any, generation: int) -> float:
    time.sleep(0.1)
    return float(data[generation * 8 : generation * 8 + 8].mean())


def learn() -> int:
    return sum(i % 3 for i in range(800_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        write_dataset(file.name, 160)
        data = np.memmap(file.name, np.uint8, "r", shape=(160, 1 << 20))
        for generation in range(20):
            with phase(generation, "load"):
                load(data, generation)
            with phase(generation, "learn"):
                learn()


if __name__ == "__main__":
    run()
