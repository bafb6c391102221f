"""The learner starts after five generations: gradients and Adam's moments appear once."""

import time
from contextlib import nullcontext
from typing import Any

import torch


def collect() -> float:
    time.sleep(0.12)
    return float(torch.randn(50_000).sum())


def learn(net: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    net(torch.randn(16, 1024)).pow(2).mean().backward()
    optimizer.step()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.Linear(2048, 1024))
    optimizer = torch.optim.Adam(net.parameters())
    for generation in range(20):
        with phase(generation, "collect"):
            collect()
        if generation >= 5:
            with phase(generation, "learn"):
                for _ in range(3):
                    learn(net, optimizer)


if __name__ == "__main__":
    run()
