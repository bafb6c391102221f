"""A list of dictionaries drops its first entry once it has `max_size`."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Memory:
    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self.transitions: list[dict[str, Any]] = []

    def push(self, transition: dict[str, Any]) -> None:
        self.transitions.append(transition)
        if len(self.transitions) > self.max_size:
            self.transitions.pop(0)


def collect(memory: Memory, rng: Any) -> None:
    for _ in range(80):
        state = rng.random(4096, np.float32)
        memory.push({"state": state, "action": 3, "reward": 0.5, "done": False})
        time.sleep(0.001)


def learn(memory: Memory, rng: Any) -> float:
    chosen = rng.integers(0, len(memory.transitions), 64)
    return float(np.stack([memory.transitions[i]["state"] for i in chosen]).mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, memory = np.random.default_rng(23), Memory(1500)
    for generation in range(26):
        with phase(generation, "collect"):
            collect(memory, rng)
        with phase(generation, "learn"):
            learn(memory, rng)


if __name__ == "__main__":
    run()
