"""Batches are handed over as files in /dev/shm that nobody removes."""

import os
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any


def share(folder: Path, generation: int) -> None:
    (folder / f"batch-{generation}").write_bytes(os.urandom(1 << 20) * 6)
    time.sleep(0.05)


def fit() -> int:
    return sum(i % 3 for i in range(2_000_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        for generation in range(18):
            with phase(generation, "share"):
                share(Path(name), generation)
            with phase(generation, "fit"):
                fit()


if __name__ == "__main__":
    run()
