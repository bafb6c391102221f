"""Images of ever new sizes go through a convolution: oneDNN keeps a compiled kernel for each.

Public cases: pytorch/pytorch#27971, #29809, #29893, #32037, #98688. The kernels are small, but lie
between freed buffers: malloc_trim(0) gives most back, and a cache of one entry keeps it flat.
"""

import time
from contextlib import nullcontext
from typing import Any

import torch

torch.set_num_threads(1)


def score(net: Any, generation: int) -> float:
    total = 0.0
    with torch.no_grad():
        for i in range(12):
            image = torch.ones(1, 3, 40 + generation * 4 + i % 4, 40 + 3 * i)
            total += float(net(image).mean())
    return total


def select() -> float:
    time.sleep(0.15)
    return float(torch.arange(1000.0).sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3)
    )
    for generation in range(20):
        with phase(generation, "score"):
            score(net, generation)
        with phase(generation, "select"):
            select()


if __name__ == "__main__":
    run()
