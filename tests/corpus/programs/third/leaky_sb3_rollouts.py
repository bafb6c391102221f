"""A callback of stable-baselines3 copies each rollout buffer,
to be looked at after the training.
"""

import copy
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback

torch.set_num_threads(1)


class Pixels(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(0.0, 1.0, (4096,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 50
        return self.np_random.random(4096, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        observation = self.np_random.random(4096, np.float32)
        return observation, float(observation[int(action)]), self.left == 0, False, {}


class RolloutInspector(BaseCallback):
    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, list[Any]] = {"buffers": [], "returns": []}

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.locals["rollout_buffer"]
        self.seen["buffers"].append(copy.deepcopy(buffer))
        self.seen["returns"].append(float(buffer.returns.mean()))


def score(model: A2C, env: Any) -> float:
    observation, _ = env.reset(seed=0)
    total = 0.0
    for _ in range(40):
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, *_ = env.step(action)
        total += float(reward)
    return total


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    env, inspector = Pixels(), RolloutInspector()
    model = A2C("MlpPolicy", env, n_steps=64, seed=17, device="cpu")
    for generation in range(18):
        with phase(generation, "learn"):
            model.learn(192, callback=inspector, reset_num_timesteps=False)
        with phase(generation, "score"):
            score(model, Pixels())


if __name__ == "__main__":
    run()
