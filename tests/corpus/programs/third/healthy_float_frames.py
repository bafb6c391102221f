"""Frames of whole numbers from 0 to 255 are kept as float32, and each of them twice."""

from contextlib import nullcontext
from typing import Any

import numpy as np


class Replay:
    def __init__(self, capacity: int, shape: tuple[int, int]) -> None:
        self.columns: dict[str, Any] = {
            "observations": np.zeros((capacity, *shape), np.float32),
            "next_observations": np.zeros((capacity, *shape), np.float32),
            "actions": np.zeros(capacity, np.int64),
        }
        self.capacity, self.position, self.is_full = capacity, 0, False

    def push(self, observation: Any, action: int, following: Any) -> None:
        self.columns["observations"][self.position] = observation
        self.columns["next_observations"][self.position] = following
        self.columns["actions"][self.position] = action
        self.position += 1
        if self.position == self.capacity:
            self.position, self.is_full = 0, True

    def sample(self, rng: Any, count: int) -> dict[str, Any]:
        rows = rng.integers(self.capacity if self.is_full else self.position, size=count)
        return {name: column[rows] for name, column in self.columns.items()}


class Agent:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(8)
        self.memory = Replay(1600, (84, 84))
        self.weights = np.zeros((84, 4), np.float32)
        self.screen = self.rng.integers(0, 256, (84, 84), np.uint8)

    def interact(self, steps: int) -> None:
        for _ in range(steps):
            following = np.roll(self.screen, 1, axis=0)
            following[0] = self.rng.integers(0, 256, 84, np.uint8)
            action = int((following.mean(axis=0) @ self.weights).argmax())
            self.memory.push(self.screen, action, following)
            self.screen = following

    def optimize(self, rounds: int) -> None:
        for _ in range(rounds):
            batch = self.memory.sample(self.rng, 64)
            change = batch["next_observations"] - batch["observations"]
            self.weights += 1e-7 * (change.mean(axis=(0, 1))[:, None])


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    agent = Agent()
    for generation in range(28):
        with phase(generation, "interact"):
            agent.interact(160)
        with phase(generation, "optimize"):
            agent.optimize(100)


if __name__ == "__main__":
    run()
