"""A simulator in C keeps contact lists from generation 14 on, when obstacles enter the scene."""

import ctypes
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np

SIM = ctypes.CDLL(None)
SIM.calloc.restype = ctypes.c_void_p
SIM.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
SIM.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
SIM.free.argtypes = [ctypes.c_void_p]


class Obstacles(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (12,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self) -> None:
        self.obstacles = 0
        self.body: int | None = None

    def build_contacts(self) -> None:
        for _ in range(self.obstacles):
            size = int(self.np_random.integers(1_000, 9_000))
            SIM.memset(SIM.calloc(1, size), 3, size)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self.body is not None:
            SIM.free(self.body)
        self.body = SIM.calloc(1, 60_000)
        self.build_contacts()
        self.state = self.np_random.standard_normal(12)
        self.left = 220
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.state = 0.98 * self.state + 0.1 * (int(action) - 1)
        self.left -= 1
        return self.state, -float(np.abs(self.state).sum()), self.left == 0, False, {}


def evaluate(env: Obstacles, weights: Any, episodes: int) -> float:
    total = 0.0
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        is_over = False
        while not is_over:
            action = int(np.argmax(weights @ observation))
            observation, reward, is_over, _, _ = env.step(action)
            total += reward
    return total / episodes


def perturb(weights: Any, rng: Any) -> Any:
    trials = rng.standard_normal((200, *weights.shape))
    return weights + 0.05 * np.tanh(trials).mean(axis=0)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    env, rng = Obstacles(), np.random.default_rng(9)
    weights = rng.standard_normal((3, 12))
    for generation in range(34):
        env.obstacles = 0 if generation < 14 else 84
        with phase(generation, "evaluate"):
            evaluate(env, weights, 30)
        with phase(generation, "perturb"):
            weights = perturb(weights, rng)


if __name__ == "__main__":
    run()
