"""The running loss is a sum of tensors, so every batch's graph is kept."""

import time
from contextlib import nullcontext
from typing import Any

import torch


class Trainer:
    def __init__(self) -> None:
        self.net = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.Tanh())
        self.running: Any = torch.zeros(())

    def batch_loss(self) -> Any:
        return self.net(torch.randn(512, 128)).pow(2).mean()

    def fit(self) -> None:
        for _ in range(4):
            self.running = self.running + self.batch_loss()
            time.sleep(0.04)


def play() -> float:
    with torch.no_grad():
        return float(torch.cumsum(torch.ones(400_000), 0).sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(0)
    trainer = Trainer()
    for epoch in range(20):
        with phase(epoch, "play"):
            play()
        with phase(epoch, "fit"):
            trainer.fit()


if __name__ == "__main__":
    run()
