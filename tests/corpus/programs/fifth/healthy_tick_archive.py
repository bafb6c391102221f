"""An offline trader walks through a mapped file of price ticks,
a little further each generation.
"""

import mmap
import tempfile
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

TICK = np.dtype([("time", "<u4"), ("price", "<f4"), ("size", "<f4"), ("flow", "<f4", (13,))])
DAY = 4096


def record(archive: Any, days: int) -> None:
    """Write a synthetic exchange feed."""
    rng = np.random.default_rng(77)
    price = 100.0
    for day in range(days):
        ticks = np.zeros(DAY, TICK)
        ticks["time"] = np.arange(DAY) + day * DAY
        ticks["price"] = price + 0.01 * rng.standard_normal(DAY).cumsum()
        ticks["size"] = rng.exponential(10.0, DAY)
        ticks["flow"] = rng.standard_normal((DAY, 13))
        price = float(ticks["price"][-1])
        archive.write(ticks.tobytes())
    archive.flush()


@contextmanager
def open_feed(days: int) -> Any:
    with tempfile.TemporaryFile() as archive:
        record(archive, days)
        with mmap.mmap(archive.fileno(), 0, access=mmap.ACCESS_READ) as view:
            yield lambda day: np.frombuffer(view, TICK, DAY, day * DAY * TICK.itemsize)


def signals(ticks: Any) -> Any:
    moves = np.diff(ticks["price"], prepend=ticks["price"][:1])
    trend = np.convolve(moves, np.ones(50) / 50, mode="same")
    return np.column_stack([moves, trend, np.log1p(ticks["size"]), ticks["flow"]])


def replay(days: list[Any]) -> list[tuple[Any, Any]]:
    samples = []
    for ticks in days:
        table = signals(ticks)
        table -= table.mean(axis=0)
        gain = np.roll(ticks["price"], -20) - ticks["price"]
        samples.append((table[:-20], gain[:-20]))
    return samples


def improve(weights: Any, samples: list[tuple[Any, Any]]) -> Any:
    for _ in range(110):
        for table, gain in samples:
            position = np.tanh(table @ weights)
            slope = table.T @ (gain * (1.0 - position**2))
            weights = weights + 1e-5 * slope - 1e-4 * weights
    return weights


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    weights, per_generation = np.zeros(16), 36
    with open_feed(30 * per_generation) as feed:
        for generation in range(30):
            first = generation * per_generation
            with phase(generation, "replay"):
                samples = replay([feed(first + day) for day in range(per_generation)])
            with phase(generation, "improve"):
                weights = improve(weights, samples)


if __name__ == "__main__":
    run()
