"""stable-baselines3's own ReplayBuffer, filled and then overwritten."""

import time
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.buffers import ReplayBuffer


def fill(buffer: ReplayBuffer, count: int) -> None:
    for step in range(count):
        frame = np.full((1, 96, 96), step % 200 + 1, np.uint8)
        buffer.add(frame, frame, np.zeros((1, 1)), np.ones(1), np.zeros(1), [{}])
    time.sleep(0.08)


def learn(buffer: ReplayBuffer) -> float:
    return float(buffer.sample(64).observations.float().mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    space = gym.spaces.Box(0, 255, (96, 96), np.uint8)
    buffer = ReplayBuffer(5000, space, gym.spaces.Discrete(2), device="cpu")
    for generation in range(20):
        with phase(generation, "fill"):
            fill(buffer, 400)
        with phase(generation, "learn"):
            for _ in range(10):
                learn(buffer)


if __name__ == "__main__":
    run()
