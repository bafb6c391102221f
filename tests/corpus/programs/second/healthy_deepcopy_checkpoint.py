"""Every fourth generation the whole population is copied, written and dropped."""

import copy
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np


def evaluate(population: list[Any]) -> float:
    time.sleep(0.08)
    return float(sum(member["weights"][0] for member in population))


def checkpoint(population: list[Any], folder: Path, generation: int) -> None:
    if generation % 4 == 3:
        copied = copy.deepcopy(population)
        arrays = {str(i): member["weights"] for i, member in enumerate(copied)}
        np.savez(folder / "population.npz", **arrays)
        time.sleep(0.08)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    population = [{"weights": np.full(1 << 20, i, np.float32)} for i in range(24)]
    with tempfile.TemporaryDirectory() as folder:
        for generation in range(20):
            with phase(generation, "evaluate"):
                evaluate(population)
            with phase(generation, "checkpoint"):
                checkpoint(population, Path(folder), generation)


if __name__ == "__main__":
    run()
