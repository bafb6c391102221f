"""Cyclic episodes of tensors are collected by hand every fifth generation."""

import gc
import time
from contextlib import nullcontext
from typing import Any

import torch

torch.set_num_threads(1)


class Episode:
    def __init__(self) -> None:
        self.states = torch.zeros(1 << 19) + 0.5
        self.owner = self


def play(count: int) -> float:
    total = 0.0
    for _ in range(count):
        total += float(Episode().states[0])
        time.sleep(0.02)
    return total


def tidy(generation: int) -> None:
    if generation % 5 == 4:
        gc.collect()
    time.sleep(0.05)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    gc.disable()
    for generation in range(25):
        with phase(generation, "play"):
            play(3)
        with phase(generation, "tidy"):
            tidy(generation)


if __name__ == "__main__":
    run()
