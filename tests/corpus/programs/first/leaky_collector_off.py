"""The collector was switched off for speed, and actor and critic refer to each other."""

import gc
import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Critic:
    def __init__(self) -> None:
        self.values = np.ones(1 << 18, np.float32)
        self.actor: Any = None


class Actor:
    def __init__(self, critic: Critic) -> None:
        self.logits = np.ones(1 << 18, np.float32)
        self.critic = critic
        critic.actor = self


def spawn_pairs(count: int) -> float:
    total = 0.0
    for _ in range(count):
        total += float(Actor(Critic()).logits[0])
        time.sleep(0.03)
    return total


def tune() -> Any:
    return np.sort(np.random.default_rng(0).random(700_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    gc.disable()
    for generation in range(18):
        with phase(generation, "spawn"):
            spawn_pairs(4)
        with phase(generation, "tune"):
            tune()
    gc.enable()


if __name__ == "__main__":
    run()
