"""Evolution by deepcopy: the arena keeps a listener of each agent that ever played in it."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np


class Agent:
    def __init__(self, rng: Any) -> None:
        self.layers = {name: rng.standard_normal((256, 256)) for name in ("in", "hidden", "out")}
        self.scores: list[float] = []

    def act(self, observation: Any) -> Any:
        for weights in self.layers.values():
            observation = np.tanh(observation @ weights / 16.0)
        return observation

    def mutate(self, rng: Any) -> None:
        for weights in self.layers.values():
            weights += 0.02 * rng.standard_normal(weights.shape)

    def on_score(self, score: float) -> None:
        self.scores.append(score)


class Arena:
    def __init__(self) -> None:
        self.listeners: list[Callable[[float], None]] = []

    def join(self, agent: Agent) -> None:
        self.listeners.append(agent.on_score)

    def duel(self, agent: Agent, rng: Any) -> float:
        observation = rng.standard_normal((48, 256))
        for _ in range(20):
            observation = agent.act(observation)
        score = float(observation.mean())
        agent.on_score(score)
        return score


class Evolution:
    def __init__(self, size: int) -> None:
        self.rng = np.random.default_rng(2)
        self.arena = Arena()
        self.population = [Agent(self.rng) for _ in range(size)]

    def tournament(self) -> list[Agent]:
        ranked = sorted(self.population, key=lambda a: self.arena.duel(a, self.rng), reverse=True)
        return ranked[:2]

    def breed(self, elite: list[Agent]) -> None:
        children = [copy.deepcopy(elite[i % 2]) for i in range(len(self.population) - 2)]
        for child in children:
            child.mutate(self.rng)
            self.arena.join(child)
        self.population = elite + children


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    evolution = Evolution(6)
    for generation in range(28):
        with phase(generation, "tournament"):
            elite = evolution.tournament()
        with phase(generation, "breed"):
            evolution.breed(elite)


if __name__ == "__main__":
    run()
