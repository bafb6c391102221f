"""Trials subscribe to a global bus and are never unsubscribed, so no trial is ever freed."""

import time
from contextlib import nullcontext
from typing import Any

import torch


class Bus:
    def __init__(self) -> None:
        self.subscribers: list[Any] = []


BUS = Bus()


class Trial:
    def __init__(self, width: int) -> None:
        self.net = torch.nn.Linear(width, width)
        BUS.subscribers.append(self.on_step)

    def on_step(self, reward: float) -> float:
        return reward


def run_trial(width: int) -> None:
    for _ in range(2):
        trial = Trial(width)
        with torch.no_grad():
            trial.net(torch.ones(8, width))
        time.sleep(0.05)


def summarize() -> float:
    return float(torch.linalg.matrix_norm(torch.ones(400, 400) @ torch.ones(400, 400)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for number in range(18):
        with phase(number, "trial"):
            run_trial(1024)
        with phase(number, "summarize"):
            for _ in range(20):
                summarize()


if __name__ == "__main__":
    run()
