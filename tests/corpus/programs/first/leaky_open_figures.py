"""A plot of the returns is drawn each generation, and its figure is never closed."""

import warnings
from contextlib import nullcontext
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot

matplotlib.use("Agg")


def plot(returns: list[float]) -> None:
    figure, axes = pyplot.subplots(figsize=(16, 16), dpi=100)
    axes.plot(returns)
    figure.canvas.draw()


def train() -> float:
    return float(np.linalg.norm(np.random.default_rng(0).random((600, 600))))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    warnings.simplefilter("ignore")
    returns: list[float] = []
    for generation in range(16):
        with phase(generation, "train"):
            for _ in range(12):
                returns.append(train())
        with phase(generation, "plot"):
            plot(returns)


if __name__ == "__main__":
    run()
