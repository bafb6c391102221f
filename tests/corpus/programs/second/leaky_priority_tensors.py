"""A priority dictionary keeps TD errors as tensors, and each of them the graph behind it."""

import time
from contextlib import nullcontext
from typing import Any

import torch

torch.set_num_threads(1)


def td_error(net: Any, batch: Any) -> Any:
    return (net(batch) - net(batch).detach() + 0.1).abs().mean()


def learn(net: Any, priorities: dict[int, Any], step: int) -> None:
    for update in range(8):
        batch = torch.randn(256, 64)
        priorities[step * 8 + update] = td_error(net, batch)
        time.sleep(0.01)


def collect() -> float:
    time.sleep(0.08)
    return float(torch.randn(40_000).sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64), torch.nn.Tanh()
    )
    priorities: dict[int, Any] = {}
    for step in range(20):
        with phase(step, "collect"):
            collect()
        with phase(step, "learn"):
            learn(net, priorities, step)


if __name__ == "__main__":
    run()
