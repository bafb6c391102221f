"""Failed episodes are kept as exceptions; their tracebacks hold the frames' locals."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class CrashError(Exception):
    pass


def episode(seed: int) -> float:
    states = np.full((512, 512), float(seed))
    time.sleep(0.02)
    if states[0, 0] >= 0:
        raise CrashError(f"left the map in episode {seed}")
    return float(states.sum())


def explore(errors: list[Exception], seed: int) -> None:
    for offset in range(4):
        try:
            episode(seed + offset)
        except CrashError as error:
            errors.append(error)


def fit() -> Any:
    rng = np.random.default_rng(0)
    return np.linalg.lstsq(rng.random((500, 60)), rng.random(500), rcond=None)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    errors: list[Exception] = []
    for generation in range(18):
        with phase(generation, "explore"):
            explore(errors, generation * 4)
        with phase(generation, "fit"):
            for _ in range(8):
                fit()


if __name__ == "__main__":
    run()
