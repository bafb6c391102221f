"""A drone env asks to be shut down when it is collected, with a method bound to itself."""

import weakref
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np


class DroneField(gym.Env):
    def __init__(self, side: int, seed: int) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (6,))
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,))
        rng = np.random.default_rng(seed)
        self.wind = rng.normal(size=(side, side, 2)).cumsum(axis=0).cumsum(axis=1) / side
        self.side, self.open = side, True
        weakref.finalize(self, self.shut_down)

    def shut_down(self) -> None:
        self.open = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = np.full(2, self.side / 2)
        self.speed = np.zeros(2)
        self.left = 300
        return self._look(), {}

    def _gust(self) -> Any:
        row, column = np.clip(self.place, 0, self.side - 1).astype(int)
        return self.wind[row, column]

    def _look(self) -> Any:
        return np.concatenate([self.place / self.side, self.speed, self._gust()])

    def step(self, action: Any) -> Any:
        self.speed = 0.9 * self.speed + action + 0.01 * self._gust()
        self.place = np.clip(self.place + self.speed, 0, self.side - 1)
        self.left -= 1
        drift = float(np.linalg.norm(self.place / self.side - 0.5))
        return self._look(), -drift, False, self.left == 0, {}


def make_field(seed: int) -> gym.Env:
    return gym.wrappers.ClipAction(DroneField(440, seed))


def fly(env: gym.Env, policy: Any) -> float:
    look, _ = env.reset()
    total = 0.0
    while True:
        look, reward, _, late, _ = env.step(np.tanh(policy @ look))
        total += float(reward)
        if late:
            return total


def fly_missions(policies: Any, first: int) -> Any:
    env_seeds = range(first, first + 3)
    scores = np.zeros(len(policies))
    for seed in env_seeds:
        env = make_field(seed)
        scores += [fly(env, policy) for policy in policies]
        env.close()
    return scores


def select(policies: Any, scores: Any, rng: Any) -> Any:
    parents = policies[np.argsort(scores)[-4:]]
    children = parents[rng.integers(0, 4, len(policies))]
    return children + 0.1 * rng.normal(size=children.shape)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(9)
    policies = rng.normal(size=(12, 2, 6))
    for generation in range(25):
        with phase(generation, "missions"):
            scores = fly_missions(policies, 3 * generation)
        with phase(generation, "selection"):
            policies = select(policies, scores, rng)


if __name__ == "__main__":
    run()
