"""backward(create_graph=True) ties each trial's network to its own gradients."""

import time
import warnings
from contextlib import nullcontext
from typing import Any

import torch

torch.set_num_threads(1)
warnings.filterwarnings("ignore", message="Using backward")


class Policy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1024, 1024, bias=False)

    def forward(self, states: Any) -> Any:
        return self.layer(states)


def trial() -> float:
    policy = Policy()
    loss = policy(torch.ones(4, 1024)).pow(2).mean()
    loss.backward(create_graph=True)
    time.sleep(0.1)
    return float(loss.detach())


def compare() -> float:
    time.sleep(0.06)
    return float(torch.sort(torch.arange(200_000.0)).values[-1])


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for number in range(18):
        with phase(number, "trial"):
            trial()
        with phase(number, "compare"):
            compare()


if __name__ == "__main__":
    run()
