"""Hyper-parameter trials keep their callback, and each callback keeps its whole model."""

from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback


class Keeper(BaseCallback):
    def _on_step(self) -> bool:
        return True


def trial(results: list[Keeper]) -> None:
    keeper = Keeper()
    model = DQN(
        "MlpPolicy",
        gym.make("CartPole-v1"),
        buffer_size=10_000,
        learning_starts=60,
        policy_kwargs={"net_arch": [1024, 1024]},
    )
    model.learn(400, callback=keeper)
    results.append(keeper)


def compare() -> float:
    return float(np.median(np.random.default_rng(0).random(400_000)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    results: list[Keeper] = []
    for number in range(14):
        with phase(number, "trial"):
            trial(results)
        with phase(number, "compare"):
            compare()


if __name__ == "__main__":
    run()
