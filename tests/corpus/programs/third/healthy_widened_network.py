"""In generation 11 the network is replaced by a wider one with an optimizer of its own."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

torch.set_num_threads(1)


def build(width: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    network = nn.Sequential(
        nn.Linear(128, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 8)
    )
    return network, torch.optim.Adam(network.parameters(), lr=1e-4)


class GrowingAgent:
    def __init__(self) -> None:
        self.network, self.optimizer = build(400)

    def widen(self) -> None:
        self.network, self.optimizer = build(1400)

    def update(self, batches: int) -> float:
        total = 0.0
        for _ in range(batches):
            states = torch.randn(32, 128)
            loss = (self.network(states) - states[:, :8]).abs().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total

    @torch.no_grad()
    def evaluate(self, batches: int) -> float:
        return sum(float(self.network(torch.randn(64, 128)).mean()) for _ in range(batches))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(5)
    agent = GrowingAgent()
    for generation in range(30):
        with phase(generation, "evaluate"):
            agent.evaluate(8)
        with phase(generation, "update"):
            if generation == 11:
                agent.widen()
            agent.update(6)


if __name__ == "__main__":
    run()
