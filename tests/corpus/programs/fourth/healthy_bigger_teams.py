"""The teams grow from two to four and then to seven players, and the match memory with them."""

from contextlib import nullcontext
from typing import Any

import numpy as np

LESSONS = {0: 2, 9: 4, 18: 7}
MATCHES, STEPS = 28, 220


class Pitch:
    """Two teams of points that chase a ball."""

    def __init__(self, rng: Any, players: int) -> None:
        self.rng, self.players = rng, players
        self.places = rng.uniform(-1, 1, (2 * players, 2))
        self.ball = np.zeros(2)

    def views(self) -> Any:
        gaps = self.places[None, :, :] - self.places[:, None, :]
        grid = np.linspace(-1, 1, 12)
        near = np.exp(-np.square(gaps[..., 0, None] - grid) - np.square(gaps[..., 1, None]))
        return np.concatenate([near.sum(axis=1), self.ball - self.places], axis=1)

    def step(self, actions: Any) -> Any:
        noise = self.rng.normal(0, 0.01, self.places.shape)
        self.places = np.clip(self.places + 0.05 * actions + noise, -1, 1)
        kicks = np.exp(-20 * np.square(self.places - self.ball).sum(axis=1))
        self.ball = np.clip(self.ball + kicks @ actions * 0.1, -1, 1)
        return self.ball[0]


class MatchMemory:
    """The matches of a generation; the critic of each player sees the views of all."""

    def __init__(self, players: int) -> None:
        shape = (MATCHES, STEPS, 2 * players)
        self.views = np.zeros((*shape, 2 * players, 14), np.float32)
        self.actions = np.zeros((*shape, 2), np.float32)
        self.rewards = np.zeros((MATCHES, STEPS), np.float32)


class Coach:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights = self.rng.normal(0, 0.1, (14, 2))
        self.players = 0
        self.memory: Any = None

    def lesson(self, generation: int) -> None:
        self.players = LESSONS.get(generation, self.players)
        if generation in LESSONS:
            self.memory = MatchMemory(self.players)

    def play(self) -> None:
        for match in range(MATCHES):
            pitch = Pitch(self.rng, self.players)
            for step in range(STEPS):
                views = pitch.views()
                actions = np.tanh(views @ self.weights + self.rng.normal(0, 0.3, (len(views), 2)))
                self.memory.views[match, step] = views[None]
                self.memory.actions[match, step] = actions
                self.memory.rewards[match, step] = pitch.step(actions)

    def train(self) -> None:
        advantage = self.memory.rewards - self.memory.rewards.mean()
        for match in range(MATCHES):
            views, actions = self.memory.views[match, :, 0], self.memory.actions[match]
            push = np.einsum("t,tpv,tpa->va", advantage[match], views, actions)
            self.weights += 1e-5 * push


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    coach = Coach(seed=11)
    for generation in range(30):
        with phase(generation, "lesson"):
            coach.lesson(generation)
        with phase(generation, "play"):
            coach.play()
        with phase(generation, "train"):
            coach.train()


if __name__ == "__main__":
    run()
