"""Transitions of a pendulum are written to a mapped file, of which more is in memory each time."""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

WIDTH = 512


class DiskReplay:
    def __init__(self, folder: str, capacity: int) -> None:
        path = Path(folder) / "transitions.bin"
        self.rows = np.memmap(path, np.float32, "w+", shape=(capacity, WIDTH))
        self.size = 0

    def add(self, rows: Any) -> None:
        self.rows[self.size : self.size + len(rows)] = rows
        self.size += len(rows)

    def sample(self, rng: Any, count: int) -> Any:
        return self.rows[np.sort(rng.integers(0, self.size, count))]


def swing(envs: Any, lift: Any, weights: Any, steps: int) -> Any:
    states, _ = envs.reset()
    found = np.empty((steps, envs.num_envs, WIDTH), np.float32)
    for step in range(steps):
        features = np.tanh(states @ lift)
        found[step] = features
        states, _, _, _, _ = envs.step(np.clip(features @ weights, -2, 2)[:, None])
    return found.reshape(-1, WIDTH)


def learn(replay: DiskReplay, weights: Any, rng: Any) -> Any:
    for _ in range(180):
        batch = replay.sample(rng, 256)
        error = batch @ weights - batch[:, 0]
        weights = weights - 1e-6 * batch.T @ error
    return weights


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(31)
    envs = gym.make_vec("Pendulum-v1", num_envs=8, vectorization_mode="sync")
    lift, weights = rng.normal(size=(3, WIDTH)), np.zeros(WIDTH, np.float32)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        replay = DiskReplay(folder, 140_000)
        for generation in range(27):
            with phase(generation, "swing"):
                rows = swing(envs, lift, weights, 600)
            with phase(generation, "store"):
                replay.add(rows)
            with phase(generation, "learn"):
                weights = learn(replay, weights, rng)
        del replay
    envs.close()


if __name__ == "__main__":
    run()
