"""A gymnasium wrapper keeps each info dict, and each info holds the raw observation."""

import time
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np


class Pixels(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(0, 255, (64, 64, 2), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 128
        return np.zeros((64, 64, 2), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        time.sleep(0.0002)
        frame = np.full((64, 64, 2), self.left, np.uint8)
        return frame[::2], 1.0, self.left == 0, False, {"raw": frame}


class Remember(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.infos: list[dict[str, Any]] = []

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self.infos.append(result[4])
        return result


def evaluate(env: gym.Env[Any, Any], episodes: int) -> float:
    total = 0.0
    for _ in range(episodes):
        env.reset()
        done = False
        while not done:
            _, reward, done, _, _ = env.step(0)
            total += float(reward)
    return total


def improve() -> Any:
    return np.linalg.svd(np.random.default_rng(0).random((220, 220)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    env = Remember(Pixels())
    for epoch in range(16):
        with phase(epoch, "improve"):
            improve()
        with phase(epoch, "evaluate"):
            evaluate(env, 8)


if __name__ == "__main__":
    run()
