"""A small DQN of stable-baselines3 on stacked images, as anybody would write it: ten seconds."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack

STEPS = 5_000


class Dot(gym.Env[Any, Any]):
    """A dot moves over a screen of 84×84 pixels; it should stay in the middle."""

    observation_space = gym.spaces.Box(0, 255, (84, 84, 1), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.column, self.steps = int(self.np_random.integers(8, 76)), 0
        return self._picture(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        drift = int(self.np_random.integers(-2, 3))
        self.column = int(np.clip(self.column + 2 * (action - 1) + drift, 4, 79))
        return self._picture(), -abs(self.column - 42) / 42, False, self.steps >= 200, {}

    def _picture(self) -> Any:
        picture = self.np_random.integers(0, 40, (84, 84, 1), dtype=np.uint8)
        picture[38:46, self.column - 4 : self.column + 4] = 255
        return picture


def main() -> None:
    torch.set_num_threads(1)
    env = VecFrameStack(make_vec_env(Dot, n_envs=1, seed=0), n_stack=4)
    model = DQN(
        "CnnPolicy",
        env,
        buffer_size=STEPS,
        learning_starts=500,
        train_freq=64,
        seed=0,
        device="cpu",
    )
    model.learn(STEPS)
    total = sum(float(parameter.detach().abs().sum()) for parameter in model.policy.parameters())
    print(f"{STEPS:,} steps; the parameters sum to {total!r}")


if __name__ == "__main__":
    main()
