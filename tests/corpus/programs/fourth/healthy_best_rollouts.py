"""A heap keeps the best 280 rollouts: it is full in generation 19,
then better ones replace worse.
"""

import heapq
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, order=True)
class Rollout:
    score: float
    number: int
    states: Any = field(compare=False, repr=False)
    actions: Any = field(compare=False, repr=False)


@dataclass
class HallOfFame:
    capacity: int
    rollouts: list[Rollout] = field(default_factory=list)

    def offer(self, rollout: Rollout) -> None:
        if len(self.rollouts) < self.capacity:
            heapq.heappush(self.rollouts, rollout)
        else:
            heapq.heappushpop(self.rollouts, rollout)

    def sample(self, rng: Any, count: int) -> list[Rollout]:
        return [self.rollouts[index] for index in rng.integers(0, len(self.rollouts), count)]


@dataclass
class Hopper:
    """A leg that jumps: height, speed and six joint angles."""

    rng: Any
    steps: int = 1500

    def rollout(self, number: int, weights: Any) -> Rollout:
        states = np.zeros((self.steps, 64))
        actions = np.zeros((self.steps, 8))
        state, score = self.rng.normal(0, 1, 64), 0.0
        for step in range(self.steps):
            action = np.tanh(weights @ state)
            state = 0.97 * np.roll(state, 1)
            state[:8] += 0.3 * action + self.rng.normal(0, 0.1, 8)
            states[step], actions[step] = state, action
            score += float(state[0])
        return Rollout(score, number, states, actions)


@dataclass
class SelfImitation:
    rng: Any
    fame: HallOfFame
    weights: Any = field(default_factory=lambda: np.zeros((8, 64)))
    played: int = 0

    def explore(self, hopper: Hopper, rollouts: int) -> None:
        for _ in range(rollouts):
            noisy = self.weights + self.rng.normal(0, 0.05, self.weights.shape)
            self.fame.offer(hopper.rollout(self.played, noisy))
            self.played += 1

    def imitate(self, epochs: int) -> None:
        for chosen in self.fame.sample(self.rng, epochs):
            error = chosen.actions - np.tanh(chosen.states @ self.weights.T)
            self.weights = self.weights + 1e-5 * error.T @ chosen.states


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(10)
    hopper, learner = Hopper(rng), SelfImitation(rng, HallOfFame(280))
    for generation in range(32):
        with phase(generation, "explore"):
            learner.explore(hopper, 14)
        with phase(generation, "imitate"):
            learner.imitate(30)


if __name__ == "__main__":
    run()
