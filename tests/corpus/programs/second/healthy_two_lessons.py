"""A curriculum loads a larger world in generation 5, and a larger one still in generation 10."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class World:
    def __init__(self, size: int) -> None:
        self.cells = np.ones((size, 1 << 18), np.float32)


def prepare(world: World, generation: int) -> World:
    return {5: World(40), 10: World(64)}.get(generation, world) if generation in (5, 10) else world


def play(world: World) -> float:
    time.sleep(0.1)
    return float(world.cells[0, :1000].sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    world = World(16)
    for generation in range(26):
        with phase(generation, "prepare"):
            world = prepare(world, generation)
        with phase(generation, "play"):
            play(world)


if __name__ == "__main__":
    run()
