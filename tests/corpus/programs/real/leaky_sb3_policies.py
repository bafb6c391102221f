"""A table of results keeps `model.predict` of each trial, and with it the model and its buffers.

Public cases: DLR-RM/stable-baselines3#1966, #2193: N trainings run out of memory, one does not.
"""

import time
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import PPO

torch.set_num_threads(1)


def trial(number: int, results: dict[int, Any]) -> None:
    model = PPO(
        "MlpPolicy",
        gym.make("CartPole-v1"),
        n_steps=128,
        batch_size=64,
        n_epochs=1,
        policy_kwargs={"net_arch": [512, 512]},
        seed=number,
    )
    model.learn(128)
    results[number] = model.predict
    time.sleep(0.1)


def compare(results: dict[int, Any]) -> list[int]:
    time.sleep(0.1)
    return sorted(results)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    results: dict[int, Any] = {}
    for number in range(16):
        with phase(number, "trial"):
            trial(number, results)
        with phase(number, "compare"):
            compare(results)


if __name__ == "__main__":
    run()
