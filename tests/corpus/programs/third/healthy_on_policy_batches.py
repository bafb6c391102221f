"""Episodes are gathered over six generations, learned from once, and dropped together."""

from contextlib import nullcontext
from typing import Any

import numpy as np


class Episode:
    __slots__ = ("actions", "observations", "rewards")

    def __init__(self, rng: Any, length: int) -> None:
        self.observations = rng.standard_normal((length, 40))
        self.actions = self.observations[:, :6].argmax(axis=1)
        self.rewards = np.where(self.actions == 3, 1.0, -0.1)


class OnPolicyTrainer:
    gather_generations = 6

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.gathered: dict[str, list[Episode]] = {"left": [], "right": []}
        self.weights = np.zeros((40, 6))

    def gather(self) -> None:
        for side in self.gathered:
            for _ in range(30):
                self.gathered[side].append(Episode(self.rng, 400))

    def maybe_learn(self, generation: int) -> bool:
        if generation % self.gather_generations < self.gather_generations - 1:
            return False
        for side in self.gathered:
            for episode in self.gathered[side]:
                chosen = np.eye(6)[episode.actions] * episode.rewards[:, None]
                self.weights += 1e-6 * episode.observations.T @ chosen
            self.gathered[side].clear()
        return True

    def evaluate(self) -> float:
        trial = self.rng.standard_normal((8000, 40))
        return float((trial @ self.weights).max(axis=1).mean())

    def fit(self, generations: int, phase: Any) -> None:
        for generation in range(generations):
            with phase(generation, "gather"):
                self.gather()
            with phase(generation, "learn"):
                self.maybe_learn(generation)
            with phase(generation, "evaluate"):
                for _ in range(24):
                    self.evaluate()


def run(on_phase: Any = None) -> None:
    OnPolicyTrainer().fit(38, on_phase or (lambda _, name: nullcontext()))


if __name__ == "__main__":
    run()
