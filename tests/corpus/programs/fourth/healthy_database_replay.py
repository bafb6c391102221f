"""The replay is a table of a database in memory, full in generation 19; then rows are deleted."""

import sqlite3
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np

CAPACITY = 19 * 1500


class Replay:
    """Transitions with the picture of the pole, one row each."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        self.database.execute(
            "CREATE TABLE steps (number INTEGER PRIMARY KEY, picture BLOB, action INT, reward REAL)"
        )
        self.added = 0

    def add(self, picture: Any, action: int, reward: float) -> None:
        row = (self.added, picture.tobytes(), action, reward)
        self.database.execute("INSERT INTO steps VALUES (?, ?, ?, ?)", row)
        self.added += 1

    def forget(self) -> None:
        oldest = self.added - self.capacity
        self.database.execute("DELETE FROM steps WHERE number < ?", (oldest,))

    def sample(self, rng: Any, size: int) -> tuple[Any, Any, Any]:
        first = max(0, self.added - self.capacity)
        numbers = rng.integers(first, self.added, size).tolist()
        marks = ",".join("?" * size)
        query = f"SELECT picture, action, reward FROM steps WHERE number IN ({marks})"
        rows = self.database.execute(query, numbers).fetchall()
        pictures, actions, rewards = zip(*rows, strict=True)
        pixels = np.stack([np.frombuffer(picture, np.uint8) for picture in pictures])
        return pixels / 255, np.array(actions), np.array(rewards)


def draw(state: Any) -> Any:
    rows, columns = np.mgrid[0:64, 0:96]
    tilt = np.tan(state[2])
    pole = np.abs(columns - 48 - 20 * state[0] - (63 - rows) * tilt) < 2
    return np.where(pole, 0, 255).astype(np.uint8)


class Agent:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(55)
        self.env = gym.make("CartPole-v1")
        self.replay = Replay(CAPACITY)
        self.weights = np.zeros((2, 64 * 96))
        self.state, _ = self.env.reset(seed=55)

    def collect(self, steps: int) -> None:
        for _ in range(steps):
            action = int(self.rng.integers(2))
            picture = draw(self.state)
            self.state, reward, fell, late, _ = self.env.step(action)
            self.replay.add(picture, action, float(reward) - 5.0 * fell)
            if fell or late:
                self.state, _ = self.env.reset()
        self.replay.forget()

    def train(self, batches: int) -> None:
        for _ in range(batches):
            pictures, actions, rewards = self.replay.sample(self.rng, 64)
            values = np.einsum("ij,ij->i", pictures, self.weights[actions])
            np.add.at(self.weights, actions, 1e-6 * (rewards - values)[:, None] * pictures)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    agent = Agent()
    for generation in range(32):
        with phase(generation, "collect"):
            agent.collect(1500)
        with phase(generation, "train"):
            agent.train(20)


if __name__ == "__main__":
    run()
