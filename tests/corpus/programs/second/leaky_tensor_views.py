"""The last state of each rollout is kept as a view, and so is the rollout."""

import time
from contextlib import nullcontext
from typing import Any

import torch

torch.set_num_threads(1)


class Memory:
    def __init__(self) -> None:
        self.last_states: list[Any] = []


def collect(memory: Memory) -> None:
    for _ in range(4):
        states = torch.zeros(1024, 512) + 0.5
        memory.last_states.append(states[-1])
        time.sleep(0.02)


def improve(net: Any) -> float:
    with torch.no_grad():
        for _ in range(20):
            result = net(torch.ones(64, 256))
    time.sleep(0.05)
    return float(result.sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    memory, net = Memory(), torch.nn.Linear(256, 256)
    for generation in range(18):
        with phase(generation, "collect"):
            collect(memory)
        with phase(generation, "improve"):
            improve(net)


if __name__ == "__main__":
    run()
