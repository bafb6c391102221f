"""Episodes last from a moment to very long, so the batch of a generation varies in size widely."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

ENVS, EPISODES, SENSORS = 8, 24, 4000


class Episode(NamedTuple):
    readings: list[Any]
    rewards: list[float]


class Tracks:
    """Runs a vector of cars and yields each episode at its end."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.cars = gym.make_vec("MountainCarContinuous-v0", num_envs=ENVS)
        self.states, _ = self.cars.reset(seed=seed)
        self.lens = self.rng.normal(0, 1, (2, SENSORS)).astype(np.float32)

    def limit(self) -> int:
        return int(np.clip(self.rng.lognormal(4.6, 1.0), 5, 500))

    def episodes(self, gain: float, count: int) -> Iterator[Episode]:
        for _ in range(count // ENVS):
            limits = [self.limit() for _ in range(ENVS)]
            running = [Episode([], []) for _ in range(ENVS)]
            for step in range(max(limits)):
                pushes = np.sign(self.states[:, 1:]) * gain
                self.states, gained, _, _, _ = self.cars.step(pushes.astype(np.float32))
                seen = np.tanh(self.states @ self.lens)
                for index in range(ENVS):
                    if step < limits[index]:
                        running[index].readings.append(seen[index])
                        running[index].rewards.append(float(gained[index]))
            yield from running


class Learner:
    def __init__(self) -> None:
        self.readings = self.returns = np.empty(0)
        self.values = np.zeros(SENSORS, np.float32)
        self.gain = 0.5

    def collect(self, tracks: Tracks) -> None:
        readings, returns = [], []
        for episode in tracks.episodes(self.gain, EPISODES):
            readings.append(np.stack(episode.readings))
            returns.append(np.cumsum(episode.rewards[::-1])[::-1])
        self.readings, self.returns = np.concatenate(readings), np.concatenate(returns)

    def learn(self, sweeps: int) -> None:
        for _ in range(sweeps):
            error = self.returns - self.readings @ self.values
            self.values += 1e-6 * (error.astype(np.float32) @ self.readings) / len(error)
        self.gain = float(np.clip(self.gain + 0.01 * np.sign(self.returns.mean()), 0.1, 1.0))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    tracks, learner = Tracks(seed=29), Learner()
    for generation in range(36):
        with phase(generation, "collect"):
            learner.collect(tracks)
        with phase(generation, "learn"):
            learner.learn(sweeps=24)


if __name__ == "__main__":
    run()
