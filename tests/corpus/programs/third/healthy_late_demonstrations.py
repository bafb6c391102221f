"""A bounded buffer of demonstrations stays empty until generation 10 and is full in
generation 22.
"""

from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Demonstration:
    states: Any
    actions: Any
    score: float


class Learner:
    def __init__(self, capacity: int) -> None:
        self.demonstrations: deque[Demonstration] = deque(maxlen=capacity)
        self.weights = np.zeros((24, 4))
        self.rng = np.random.default_rng(1)
        self.threshold_met = False

    def rollout(self) -> Demonstration:
        states = self.rng.standard_normal((1000, 24)).cumsum(axis=0)
        logits = np.tanh(states / 30) @ self.weights + self.rng.gumbel(size=(1000, 4))
        actions = logits.argmax(axis=1)
        return Demonstration(states, actions, float((actions == 2).mean()))

    def collect(self, episodes: int) -> None:
        for _ in range(episodes):
            found = self.rollout()
            if self.threshold_met:
                self.demonstrations.append(found)

    def evaluate(self, episodes: int) -> float:
        return sum(self.rollout().score for _ in range(episodes)) / episodes

    def imitate(self) -> None:
        for shown in list(self.demonstrations)[-100:]:
            targets = np.eye(4)[shown.actions]
            features = np.tanh(shown.states / 30)
            self.weights += 1e-5 * features.T @ (targets - 0.25)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    learner = Learner(capacity=416)
    for generation in range(36):
        learner.threshold_met = generation >= 10
        with phase(generation, "collect"):
            learner.collect(32)
        with phase(generation, "imitate"):
            learner.imitate()
        with phase(generation, "evaluate"):
            learner.evaluate(20)


if __name__ == "__main__":
    run()
