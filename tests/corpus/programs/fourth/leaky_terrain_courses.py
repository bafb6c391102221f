"""Each course is registered as an environment of its own, and the registry keeps its terrain."""

from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np

SIZE, PATCH = 1000, 24


class Walk(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-9.0, 9.0, (PATCH, PATCH), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, **course: Any) -> None:
        self.terrain, self.place = course["terrain"], np.full(2, SIZE / 2)

    def patch(self) -> Any:
        row, column = self.place.astype(int)
        return self.terrain[row : row + PATCH, column : column + PATCH].copy()

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        self.place = self.np_random.uniform(100, SIZE - 100, 2)
        return self.patch(), {}

    def step(self, action: Any) -> Any:
        before = self.patch()
        self.place = np.clip(self.place + 4 * np.asarray(action), 0, SIZE - PATCH - 1)
        after = self.patch()
        return after, float(action[0] - np.abs(after - before).mean()), False, False, {}


class Replay:
    def __init__(self, capacity: int) -> None:
        self.patches = np.zeros((capacity, 2, PATCH, PATCH), np.float32)
        self.rewards = np.zeros(capacity, np.float32)
        self.added = 0

    def add(self, before: Any, after: Any, reward: float) -> None:
        slot = self.added % len(self.rewards)
        self.patches[slot] = before, after
        self.rewards[slot] = reward
        self.added += 1

    def sample(self, rng: Any, size: int) -> Any:
        rows = rng.integers(0, min(self.added, len(self.rewards)), size)
        return self.patches[rows, 0].reshape(size, -1), self.rewards[rows]


def design(rng: Any, generation: int) -> str:
    waves = rng.normal(0, 1, (40, 40)).repeat(25, axis=0).repeat(25, axis=1)
    terrain = (waves * (0.2 + 0.05 * generation)).astype(np.float32)
    name = f"Course-v{generation}"
    gym.register(name, entry_point=Walk, max_episode_steps=300, kwargs={"terrain": terrain})
    return name


def explore(name: str, replay: Replay, weights: Any, steps: int = 2600) -> None:
    env = gym.make(name, disable_env_checker=True)
    seen, _ = env.reset(seed=7)
    for _ in range(steps):
        turn = np.tanh(seen.ravel() @ weights)
        after, reward, _, over, _ = env.step(np.array([1.0 - abs(turn), turn]))
        replay.add(seen, after, float(reward))
        seen = env.reset()[0] if over else after


def train(replay: Replay, rng: Any, weights: Any) -> Any:
    for _ in range(270):
        patches, rewards = replay.sample(rng, 1024)
        weights = 0.999 * weights + 1e-4 * (rewards - rewards.mean()) @ np.tanh(patches) / 1024
    return weights


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, replay, weights = np.random.default_rng(2), Replay(36000), np.zeros(PATCH * PATCH)
    for generation in range(34):
        with phase(generation, "design"):
            name = design(rng, generation)
        with phase(generation, "explore"):
            explore(name, replay, weights)
        with phase(generation, "train"):
            weights = train(replay, rng, weights)


if __name__ == "__main__":
    run()
