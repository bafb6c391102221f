"""The three workloads of the replay benchmarks: vectors, Atari stacks, windows over market data."""

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

EPISODE = 1000


@dataclass
class Workload:
    """A run of steps: observation i is `windows[i]`, the next one `windows[i + 1]`."""

    name: str
    windows: Array  # [steps + 1, *observation], overlapping views where stacks overlap
    stack: int
    action: Array
    reward: Array
    ends: Array  # truncated there
    batch: int

    @property
    def steps(self) -> int:
        return len(self.reward)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.windows.shape[1:])


def vectors(steps: int = 20_000) -> Workload:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(steps + 1, 71)).astype(np.float32)
    return _workload("W1 vector of 71 float32", rows, 1, rng.normal(size=(steps, 7)), 256)


def windows(steps: int = 300, length: int = 504) -> Workload:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(steps + length, 117, 5)).astype(np.float32)
    views = np.lib.stride_tricks.sliding_window_view(rows, length, axis=0)
    actions = rng.normal(size=(steps, 7))
    return _workload("W3 window 504×117×5 float32", np.moveaxis(views, -1, 1), length, actions, 32)


def atari(steps: int = 5000) -> Workload:
    """Frames of Pong as stable-baselines3's wrapper gives them, by a random policy."""
    import ale_py
    import gymnasium
    from stable_baselines3.common.atari_wrappers import AtariWrapper

    gymnasium.register_envs(ale_py)
    env = AtariWrapper(gymnasium.make("ALE/Pong-v5", frameskip=1), terminal_on_life_loss=False)
    env.action_space.seed(0)
    env.reset(seed=0)
    frames = np.empty((steps + 4, 84, 84), np.uint8)
    for at in range(len(frames)):
        found, _, terminated, truncated, _ = env.step(env.action_space.sample())
        frames[at] = found[..., 0]
        if terminated or truncated:
            env.reset()
    views = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
    actions = np.random.default_rng(1).integers(0, 6, (steps, 1))
    return _workload("W2 stack 4×84×84 uint8, Pong", np.moveaxis(views, -1, 1), 4, actions, 256)


def _workload(name: str, views: Array, stack: int, actions: Array, batch: int) -> Workload:
    steps = len(actions)
    kind = np.int64 if actions.dtype.kind == "i" else np.float32
    reward = np.random.default_rng(3).normal(size=steps).astype(np.float32)
    ends = np.arange(steps) % EPISODE == EPISODE - 1
    return Workload(name, views, stack, actions.astype(kind), reward, ends, batch)
