"""A list as default argument collects the gradients of all generations."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


def remember(gradient: Any, history: list[Any] = []) -> int:  # noqa: B006
    history.append(gradient)
    return len(history)


def backprop(weights: Any) -> None:
    for scale in range(1, 7):
        remember(weights * (0.1 * scale))
        time.sleep(0.015)


def simulate(rng: Any) -> float:
    return float(np.cumsum(rng.random(600_000)).max())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(13)
    weights = np.ones(1 << 17)
    for epoch in range(18):
        with phase(epoch, "simulate"):
            for _ in range(6):
                simulate(rng)
        with phase(epoch, "backprop"):
            backprop(weights)


if __name__ == "__main__":
    run()
