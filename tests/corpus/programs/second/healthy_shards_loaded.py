"""Demonstrations are read shard by shard until all nine are in memory."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


def load(shards: list[Any], rng: Any) -> None:
    if len(shards) < 9:
        shards.append(rng.random((256, 4096)))
    time.sleep(0.05)


def imitate(shards: list[Any]) -> float:
    time.sleep(0.06)
    return float(sum(shard[0].mean() for shard in shards))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(31)
    shards: list[Any] = []
    for generation in range(26):
        with phase(generation, "load"):
            load(shards, rng)
        with phase(generation, "imitate"):
            imitate(shards)


if __name__ == "__main__":
    run()
