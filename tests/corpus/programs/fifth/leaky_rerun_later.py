"""Each search trial leaves a ready-made evaluation call for the last round,
and so its whole agent.
"""

from contextlib import nullcontext
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy


class StaffingEnv(gym.Env):
    """Choose how many agents a call center schedules for the next half hour."""

    observation_space = gym.spaces.Box(-10.0, 10.0, (32,), np.float32)
    action_space = gym.spaces.Discrete(6)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.calls = np.zeros(32, np.float32)
        self.clock = 0
        return self.calls.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.clock += 1
        load = 2.5 + 2.0 * np.sin(self.clock / 8.0) + self.np_random.normal(0.0, 0.3)
        self.calls = np.roll(self.calls, 1)
        self.calls[0] = np.clip(load, -10.0, 10.0)
        reward = -abs(load - int(action))
        return self.calls.copy(), float(reward), False, self.clock >= 48, {}


class Search:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.results: list[tuple[float, dict[str, float]]] = []
        self.final_round: list[Any] = []

    def suggest(self) -> dict[str, float]:
        return {
            "learning_rate": float(10 ** self.rng.uniform(-4.0, -2.5)),
            "gamma": float(self.rng.choice([0.9, 0.97, 0.99])),
        }

    def train_agent(self, settings: dict[str, float]) -> DQN:
        model = DQN(
            "MlpPolicy",
            StaffingEnv(),
            buffer_size=2000,
            learning_starts=40,
            batch_size=32,
            train_freq=4,
            policy_kwargs={"net_arch": [512, 512]},
            **settings,
        )
        return model.learn(260)

    def trial(self) -> None:
        settings = self.suggest()
        model = self.train_agent(settings)
        score, _ = evaluate_policy(model, StaffingEnv(), n_eval_episodes=2, warn=False)
        self.results.append((float(score), settings))
        self.final_round.append(partial(evaluate_policy, model, n_eval_episodes=50))

    def rank(self) -> dict[str, float]:
        return max(self.results, key=lambda result: result[0])[1]


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    search = Search(4)
    for generation in range(24):
        with phase(generation, "trial"):
            search.trial()
        with phase(generation, "rank"):
            search.rank()


if __name__ == "__main__":
    run()
