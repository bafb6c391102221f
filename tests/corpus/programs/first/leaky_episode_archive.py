"""Finished episodes are appended to a list for a video that is never made."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Episode:
    rewards: list[float] = field(default_factory=list)
    frames: Any = None


class Collector:
    def __init__(self) -> None:
        self.done: list[Episode] = []
        self.rng = np.random.default_rng(2)

    def play_episode(self, length: int) -> Episode:
        episode = Episode()
        episode.frames = self.rng.integers(0, 255, (length, 96, 96), dtype=np.uint8)
        for step in range(length):
            episode.rewards.append(float(episode.frames[step].mean()))
            time.sleep(0.0003)
        return episode

    def rollout(self) -> None:
        for _ in range(4):
            self.done.append(self.play_episode(256))


def update(weights: Any) -> Any:
    for _ in range(6):
        weights = np.tanh(weights @ weights) * 0.1
    return weights


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    collector, weights = Collector(), np.full((200, 200), 0.01)
    for iteration in range(16):
        with phase(iteration, "rollout"):
            collector.rollout()
        with phase(iteration, "update"):
            weights = update(weights)


if __name__ == "__main__":
    run()
