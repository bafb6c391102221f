"""From generation 7 on each evaluation opens an env on the exit stack of the whole training."""

from contextlib import ExitStack, nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit


class DispatchEnv(gym.Env):
    """Send one of eight vans to the next order on a road network."""

    def __init__(self, places: int) -> None:
        self.observation_space = gym.spaces.Box(0.0, np.inf, (16,), np.float32)
        self.action_space = gym.spaces.Discrete(8)
        rng = np.random.default_rng(places)
        spots = rng.random((places, 2)).astype(np.float32)
        self.minutes = 40.0 * np.abs(spots[:, None] - spots[None]).sum(-1)

    def _observe(self) -> Any:
        near = self.minutes[self.vans, self.order]
        return np.concatenate([near, self.busy]).astype(np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.vans = self.np_random.integers(0, len(self.minutes), 8)
        self.busy = np.zeros(8)
        self.order = int(self.np_random.integers(len(self.minutes)))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        wait = float(self.minutes[self.vans[action], self.order] + self.busy[action])
        self.vans[action] = self.order
        self.busy = np.maximum(self.busy - 2.0, 0.0)
        self.busy[action] = wait
        self.order = int(self.np_random.integers(len(self.minutes)))
        return self._observe(), -wait, False, False, {}


def open_env(places: int, resources: ExitStack) -> Any:
    env = RecordEpisodeStatistics(TimeLimit(DispatchEnv(places), 600))
    return resources.enter_context(env)


def episode(env: Any, weights: Any, seed: int) -> float:
    observation, _ = env.reset(seed=seed)
    total, done = 0.0, False
    while not done:
        costs = weights[0] * observation[:8] + weights[1] * observation[8:]
        observation, reward, terminated, truncated, _ = env.step(int(np.argmin(costs)))
        total += float(reward)
        done = terminated or truncated
    return total


def evaluate(weights: Any, generation: int, resources: ExitStack) -> float:
    env = open_env(2800, resources)
    return sum(episode(env, weights, seed) for seed in (generation, generation + 1000)) / 2


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, weights = np.random.default_rng(6), np.ones(2)
    with ExitStack() as resources:
        env = open_env(700, resources)
        for generation in range(26):
            with phase(generation, "search"):
                tries = weights + 0.2 * rng.standard_normal((26, 2))
                scores = [episode(env, row, generation) for row in tries]
            with phase(generation, "select"):
                weights = tries[np.argsort(scores)[-5:]].mean(axis=0)
            with phase(generation, "evaluate"):
                if generation >= 7:
                    evaluate(weights, generation, resources)


if __name__ == "__main__":
    run()
