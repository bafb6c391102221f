"""The process of a user's report, scaled down: 12 torch threads, 40 Python threads, 768-wide nets.

What it holds on purpose: blocks of 64 kB to 1 MB that worker threads freed and glibc keeps, and
state histories in float64. It answers "trim" on stdin by giving freed memory back.
"""

import ctypes
import json
import os
import sys
import threading

import numpy as np
import torch

STATE, ACTION, WIDTH = 71, 7, 768
TORCH_THREADS, WORKERS = 12, 40
HISTORY_STEPS = 60_000
FREED_BLOCK_BYTES = (64_000, 128_000, 256_000, 500_000, 1_000_000)
KEPT_BYTES = 32_000


def network(outputs: int) -> torch.nn.Module:
    layers: list[torch.nn.Module] = [torch.nn.Linear(STATE, WIDTH), torch.nn.Tanh()]
    for _ in range(3):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, outputs))


class Trainer:
    """Actor, critic, one optimizer, and the states that were seen, as float64."""

    def __init__(self) -> None:
        self.actor = network(ACTION)
        self.critic = network(1)
        self.optimizer = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()])
        self.state_history = np.random.default_rng(0).normal(size=(HISTORY_STEPS, STATE))

    def update(self) -> None:
        states = torch.from_numpy(self.state_history[:1024]).float()
        loss = self.actor(states).square().mean() + self.critic(states).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class Worker(threading.Thread):
    """Fills memory with batches, frees all of them and keeps one small array made last."""

    def __init__(self, wake: threading.Event) -> None:
        super().__init__(daemon=True)
        self.wake = wake
        self.is_ready = threading.Event()

    def run(self) -> None:
        batches = [np.ones(size, np.uint8) for size in FREED_BLOCK_BYTES * 2]
        self.last_states = np.ones(KEPT_BYTES, np.uint8)
        del batches
        self.is_ready.set()
        self.wake.wait()


def resident_bytes() -> int:
    with open("/proc/self/smaps_rollup") as rollup:
        return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Rss:"))


def main() -> None:
    torch.set_num_threads(TORCH_THREADS)
    trainer = Trainer()
    for _ in range(3):
        trainer.update()
    wake = threading.Event()
    workers = [Worker(wake) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.is_ready.wait()
    truth = {
        "history_bytes": trainer.state_history.nbytes,
        "parameters_bytes": sum(
            p.nbytes for net in (trainer.actor, trainer.critic) for p in net.parameters()
        ),
    }
    print(json.dumps({"pid": os.getpid(), "truth": truth}), flush=True)
    for line in sys.stdin:
        if line.strip() == "trim":
            before = resident_bytes()
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            print(json.dumps({"given_back_bytes": before - resident_bytes()}), flush=True)


main()
