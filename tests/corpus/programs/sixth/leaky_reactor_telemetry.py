"""A stirred reactor notes all readings of each step in a flat array meant for one batch only."""

from array import array
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np


class Telemetry:
    def __init__(self) -> None:
        self.readings = array("d")
        self.steps = 0

    def note(self, values: Any) -> None:
        self.readings.extend(values)
        self.steps += 1

    def restart(self) -> None:
        self.steps = 0


class Reactor(gym.Env):
    """Concentrations along a tubular reactor; the action sets the temperature of the jacket."""

    def __init__(self, cells: int, telemetry: Telemetry) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (cells,))
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,))
        self.telemetry, self.cells = telemetry, cells

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left, self.feed = 120, np.ones(self.cells)
        self.telemetry.restart()
        return self.feed, {}

    def step(self, action: Any) -> Any:
        rate = 0.02 * np.exp(float(action[0]))
        for _ in range(24):
            flow = np.roll(self.feed, 1)
            flow[0] = 1.0
            self.feed = self.feed + 0.3 * (flow - self.feed) - rate * self.feed**2
        self.feed += 1e-3 * self.np_random.standard_normal(self.cells)
        self.telemetry.note(self.feed.tolist())
        self.left -= 1
        yield_ = 1.0 - float(self.feed[-1]) - 0.1 * rate
        return self.feed, yield_, False, self.left == 0, {}


def run_batches(env: gym.Env, gains: Any) -> list[float]:
    returns = []
    for gain in gains:
        state, _ = env.reset()
        total, over = 0.0, False
        while not over:
            state, reward, _, over, _ = env.step(np.clip(gain * (state[-1] - 0.3), -1, 1)[None])
            total += float(reward)
        returns.append(total)
    return returns


def improve(center: float, gains: Any, returns: list[float]) -> float:
    weights = np.exp(np.array(returns) - max(returns))
    return 0.7 * center + 0.3 * float(gains @ weights / weights.sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, center = np.random.default_rng(2), 0.0
    env = Reactor(900, Telemetry())
    env.reset(seed=2)
    for generation in range(28):
        gains = center + rng.normal(size=6)
        with phase(generation, "batches"):
            returns = run_batches(env, gains)
        with phase(generation, "improve"):
            center = improve(center, gains, returns)


if __name__ == "__main__":
    run()
