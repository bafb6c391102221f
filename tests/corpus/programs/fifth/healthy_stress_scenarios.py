"""A portfolio agent is tested on a library of stress scenarios that is made once,
in generation 12.
"""

from contextlib import nullcontext
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

ASSETS, DAYS = 8, 120


class Portfolio(gym.Env):
    observation_space = gym.spaces.Box(-5.0, 5.0, (2 * ASSETS,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (ASSETS,), np.float32)

    def observe(self) -> Any:
        return np.concatenate([self.moves, self.held]).clip(-5.0, 5.0).astype(np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.moves, self.held, self.day = np.zeros(ASSETS), np.zeros(ASSETS), 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.day += 1
        cost = 0.05 * float(np.abs(action - self.held).sum())
        self.held = np.asarray(action, float)
        self.moves = 0.4 * self.moves + self.np_random.standard_normal(ASSETS)
        return self.observe(), float(self.held @ self.moves) - cost, False, self.day >= DAYS, {}


class Scenarios:
    @cached_property
    def paths(self) -> Any:
        rng = np.random.default_rng(99)
        shocks = rng.standard_t(3, (9000, DAYS, ASSETS))
        for day in range(1, DAYS):
            shocks[:, day] += 0.4 * shocks[:, day - 1]
        return shocks

    def loss(self, model: Any, count: int) -> float:
        held, worst = np.zeros((count, ASSETS)), np.zeros(count)
        for day in range(0, DAYS - 1, 4):
            seen = np.concatenate([self.paths[:count, day], held], axis=1).clip(-5.0, 5.0)
            held, _ = model.predict(seen.astype(np.float32), deterministic=True)
            worst = np.minimum(worst, (held * self.paths[:count, day + 1]).sum(axis=1))
        return float(worst.mean())


class MeanReward(BaseCallback):
    total = 0.0

    def _on_step(self) -> bool:
        self.total += float(self.locals["rewards"].mean())
        return True


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    scenarios = Scenarios()
    model = A2C("MlpPolicy", make_vec_env(Portfolio, n_envs=4, seed=0), n_steps=10, seed=0)
    for generation in range(28):
        with phase(generation, "learn"):
            model.learn(800, callback=MeanReward(), reset_num_timesteps=False)
        with phase(generation, "stress"):
            if generation >= 12:
                scenarios.loss(model, 500)


if __name__ == "__main__":
    run()
