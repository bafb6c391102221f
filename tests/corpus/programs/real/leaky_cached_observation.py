"""functools.lru_cache on a method of a Gymnasium environment keeps every environment ever made.

Public cases: flatland-association/flatland-rl#104, #119; meta-pytorch/botorch#1650.
"""

import time
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np


class RailEnv(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(0, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self) -> None:
        self.rails = np.full((3, 1 << 20), 2, np.uint8)
        self.position = 0

    @lru_cache(maxsize=None)  # noqa: B019, UP033
    def distance(self, position: int) -> float:
        return float(self.rails[0, position])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.position += 1
        reward = self.distance(self.position)
        return np.zeros(4, np.float32), reward, self.position > 40, False, {}


def evaluate() -> float:
    total = 0.0
    for _ in range(2):
        env: Any = gym.wrappers.TimeLimit(RailEnv(), 50)
        env.reset(seed=1)
        done = False
        while not done:
            _, reward, done, _, _ = env.step(0)
            total += float(reward)
        env.close()
        time.sleep(0.04)
    return total


def evolve() -> Any:
    return np.sort(np.random.default_rng(2).random(500_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for generation in range(18):
        with phase(generation, "evolve"):
            evolve()
        with phase(generation, "evaluate"):
            evaluate()


if __name__ == "__main__":
    run()
