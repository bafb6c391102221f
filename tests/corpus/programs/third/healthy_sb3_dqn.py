"""DQN of stable-baselines3 learns in many calls; its replay is full in generation 7."""

from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN

torch.set_num_threads(1)


class Sensors(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-5.0, 5.0, (2000,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 40
        return self._observe(), {}

    def _observe(self) -> Any:
        return self.np_random.standard_normal(2000, np.float32).clip(-5, 5)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        observation = self._observe()
        return observation, float(observation[int(action)]), self.left == 0, False, {}


def learn(model: DQN) -> None:
    model.learn(256, reset_num_timesteps=False)


def evaluate(model: DQN) -> float:
    env = Sensors()
    observation, _ = env.reset(seed=1)
    total = 0.0
    for _ in range(80):
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, *_ = env.step(action)
        total += reward
    return total


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    model = DQN(
        "MlpPolicy",
        Sensors(),
        buffer_size=2000,
        learning_starts=200,
        train_freq=32,
        seed=10,
        device="cpu",
    )
    for generation in range(24):
        with phase(generation, "learn"):
            learn(model)
        with phase(generation, "evaluate"):
            evaluate(model)


if __name__ == "__main__":
    run()
