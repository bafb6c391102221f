"""Every sixth generation all pairs of states are compared, which takes 600 MiB for a moment."""

from collections import deque
from contextlib import nullcontext
from typing import Any

import numpy as np

STATE, KEEP = 16, 6144


def simulate(rng: Any, weights: Any, robots: int, steps: int) -> Any:
    """Final states of a swarm of robots that follow one policy."""
    states = rng.normal(0, 1, (robots, STATE))
    for _ in range(steps):
        actions = np.tanh(states @ weights)
        states = 0.95 * states + 0.2 * actions + rng.normal(0, 0.05, states.shape)
    return states


class Coverage:
    """How much of the state space was seen, from distances between the recent states."""

    def __init__(self) -> None:
        self.states: deque[Any] = deque(maxlen=KEEP)
        self.scale = 1.0

    def add(self, states: Any) -> None:
        self.states.extend(states.copy())

    def rescale(self) -> None:
        points = np.stack(self.states)
        squares = np.square(points).sum(axis=1)
        distances = squares[:, None] + squares[None, :]
        distances -= 2 * points @ points.T
        nearest = np.partition(distances[:: len(points) // 200], 10, axis=1)[:, 1:11]
        self.scale = float(np.sqrt(np.maximum(nearest, 0)).mean())

    def novelty(self, states: Any, sample: int = 500) -> Any:
        points = np.stack([self.states[index] for index in range(-sample, 0)])
        gaps = np.linalg.norm(states[:, None, :] - points[None, :, :], axis=2)
        return np.sort(gaps, axis=1)[:, :10].mean(axis=1) / self.scale


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, coverage = np.random.default_rng(64), Coverage()
    parent = rng.normal(0, 0.3, (STATE, STATE))
    coverage.add(rng.normal(0, 1, (KEEP, STATE)))
    for generation in range(30):
        offspring, novelties = [], []
        with phase(generation, "simulate"):
            for _ in range(8):
                child = parent + rng.normal(0, 0.05, parent.shape)
                offspring.append((child, simulate(rng, child, 128, 480)))
        with phase(generation, "rank"):
            for _, states in offspring:
                novelties.append(float(coverage.novelty(states).mean()))
                coverage.add(states)
            parent = offspring[int(np.argmax(novelties))][0]
        with phase(generation, "survey"):
            if generation % 6 == 5:
                coverage.rescale()


if __name__ == "__main__":
    run()
