"""A world model keeps each imagined rollout for a later picture,
beside a replay that still fills.
"""

from contextlib import nullcontext
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn


class Dream(NamedTuple):
    start: Any
    states: Any


class Replay:
    def __init__(self, capacity: int, width: int) -> None:
        self.rows = np.zeros((capacity, 2 * width), np.float32)
        self.size = 0

    def add(self, row: Any) -> None:
        self.rows[self.size % len(self.rows)] = row
        self.size += 1

    def sample(self, rng: Any, count: int) -> Any:
        taken = rng.integers(0, min(self.size, len(self.rows)), count)
        return torch.from_numpy(self.rows[taken])


class WorldModel(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.step = nn.Sequential(nn.Linear(width, 256), nn.ELU(), nn.Linear(256, width))
        self.diary: list[Dream] = []

    @torch.no_grad()
    def imagine(self, start: Any, horizon: int) -> Dream:
        states = [start]
        for _ in range(horizon):
            states.append(states[-1] + 0.1 * self.step(states[-1]))
        return Dream(start, torch.stack(states))


def act(env: gym.Env, replay: Replay, lift: Any, steps: int) -> None:
    state, _ = env.reset()
    for _ in range(steps):
        after, _, ended, cut, _ = env.step(env.action_space.sample())
        replay.add(np.tanh(np.concatenate([state @ lift, after @ lift])))
        state = env.reset()[0] if ended or cut else after


def fit(model: WorldModel, optimizer: Any, replay: Replay, rng: Any) -> None:
    for _ in range(25):
        batch = replay.sample(rng, 256)
        before, after = batch[:, : model.width], batch[:, model.width :]
        loss = (before + 0.1 * model.step(before) - after).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def dream(model: WorldModel, replay: Replay, rng: Any) -> float:
    for _ in range(8):
        start = replay.sample(rng, 96)[:, : model.width]
        model.diary.append(model.imagine(start, horizon=31))
    return float(model.diary[-1].states.mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.set_num_threads(1)
    rng, model, replay = np.random.default_rng(6), WorldModel(128), Replay(45_000, 128)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    env = gym.make("Acrobot-v1")
    lift = rng.normal(size=(6, 128))
    for generation in range(28):
        with phase(generation, "act"):
            act(env, replay, lift, 3000)
        with phase(generation, "fit"):
            fit(model, optimizer, replay, rng)
        with phase(generation, "dream"):
            dream(model, replay, rng)


if __name__ == "__main__":
    run()
