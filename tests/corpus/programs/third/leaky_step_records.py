"""Q-learning with a monitor from another module that remembers every step of every episode."""

import argparse
from contextlib import nullcontext
from typing import Any

import numpy as np
from monitoring import EpisodeMonitor  # type: ignore[import-not-found]


class GridWorld:
    size = 40

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.cell = 0

    def reset(self) -> int:
        self.cell = int(self.rng.integers(self.size**2))
        return self.cell

    def step(self, action: int) -> tuple[int, float]:
        self.cell = (self.cell + (1, -1, self.size, -self.size)[action]) % self.size**2
        return self.cell, 1.0 if self.cell == 0 else -0.01


def play_episode(env: GridWorld, table: Any, monitor: EpisodeMonitor, episode: int) -> None:
    state = env.reset()
    for step in range(500):
        values = tuple(table[state].tolist())
        greedy = max(range(4), key=values.__getitem__)
        action = greedy if env.rng.random() > 0.2 else int(env.rng.integers(4))
        following, reward = env.step(action)
        table[state, action] += 0.1 * (reward + 0.97 * table[following].max() - values[action])
        monitor.on_step(episode, step, reward, values)
        state = following
    monitor.on_episode_end(episode)


def sweep(table: Any) -> float:
    model = np.exp(table @ table.T / 50.0)
    return float(np.linalg.norm(model @ table))


def main(budget: int, seed: int, on_phase: Any) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    env, monitor = GridWorld(seed), EpisodeMonitor()
    table = np.zeros((env.size**2, 4))
    generation = episode = 0
    while True:
        with phase(generation, "explore"):
            for _ in range(20):
                play_episode(env, table, monitor, episode)
                episode += 1
        if episode * 500 >= budget:
            break
        with phase(generation, "sweep"):
            sweep(table)
        generation += 1


def run(on_phase: Any = None) -> None:
    main(budget=240_000, seed=1, on_phase=on_phase)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", type=int, default=240_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    main(options.budget, options.seed, None)
