"""A weak dictionary from model to callback keeps every model, for the callback holds its model."""

from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import gymnasium as gym
import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise

STEPS = 90


class Progress(BaseCallback):
    """Mean reward of a model under training."""

    def __init__(self) -> None:
        super().__init__()
        self.rewards: list[float] = []

    def _on_step(self) -> bool:
        self.rewards.append(float(np.mean(self.locals["rewards"])))
        return True

    def mean(self) -> float:
        return float(np.mean(self.rewards[-30:]))


PROGRESS: WeakKeyDictionary[TD3, Progress] = WeakKeyDictionary()


def build(env: Any, settings: dict[str, float], seed: int) -> TD3:
    noise = NormalActionNoise(np.zeros(1), np.full(1, settings["noise"]))
    return TD3(
        "MlpPolicy",
        env,
        learning_rate=settings["learning_rate"],
        batch_size=64,
        buffer_size=5000,
        learning_starts=50,
        action_noise=noise,
        seed=seed,
    )


def run_trial(settings: dict[str, float], seed: int) -> float:
    env: Any = gym.make("Pendulum-v1")
    model = build(env, settings, seed)
    PROGRESS[model] = Progress()
    model.learn(STEPS, callback=PROGRESS[model])
    score = PROGRESS[model].mean()
    env.close()
    return score


def suggest(rng: Any, best: dict[str, float]) -> dict[str, float]:
    return {name: value * float(np.exp(rng.normal(0, 0.3))) for name, value in best.items()}


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(0)
    best, best_score = {"learning_rate": 1e-3, "noise": 0.1}, -np.inf
    for generation in range(24):
        with phase(generation, "suggest"):
            settings = suggest(rng, best)
        with phase(generation, "trial"):
            score = run_trial(settings, seed=generation)
        with phase(generation, "compare"):
            if score > best_score:
                best, best_score = settings, score


if __name__ == "__main__":
    run()
