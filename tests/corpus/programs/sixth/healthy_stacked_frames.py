"""Each stored observation repeats the eight frames before it, in a ring that is full early."""

from collections import deque
from contextlib import nullcontext
from typing import Any

import numpy as np

SIDE, DEPTH = 48, 8


class BallGame:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.ball, self.paddle = self.rng.random(2) * SIDE, SIDE // 2
        self.speed = self.rng.normal(size=2)
        self.recent = deque([np.zeros((SIDE, SIDE), np.uint8)] * DEPTH, maxlen=DEPTH)

    def step(self, action: int) -> tuple[Any, float]:
        self.paddle = int(np.clip(self.paddle + 2 * (action - 1), 3, SIDE - 4))
        self.ball = self.ball + self.speed
        outside = (self.ball < 0) | (self.ball > SIDE - 1)
        self.speed = np.where(outside, -self.speed, self.speed) + 0.01 * self.rng.normal(size=2)
        self.ball = np.clip(self.ball, 0, SIDE - 1)
        frame = np.zeros((SIDE, SIDE), np.uint8)
        row, column = self.ball.astype(int)
        frame[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = 255
        frame[-2:, self.paddle - 3 : self.paddle + 3] = 128
        self.recent.append(frame)
        return np.stack(self.recent), -abs(column - self.paddle) / SIDE


class FrameReplay:
    def __init__(self, capacity: int) -> None:
        self.stacks: list[Any] = []
        self.rewards: list[float] = []
        self.capacity, self.next = capacity, 0

    def add(self, stack: Any, reward: float) -> None:
        if len(self.stacks) < self.capacity:
            self.stacks.append(stack)
            self.rewards.append(reward)
        else:
            self.stacks[self.next], self.rewards[self.next] = stack, reward
        self.next = (self.next + 1) % self.capacity

    def batch(self, rng: Any, count: int) -> tuple[Any, Any]:
        rows = rng.integers(0, len(self.stacks), count)
        stacks = np.stack([self.stacks[row] for row in rows])
        return stacks.reshape(count, -1) / 255.0, np.array([self.rewards[row] for row in rows])


def play(game: BallGame, replay: FrameReplay, steps: int) -> None:
    for _ in range(steps):
        replay.add(*game.step(int(game.rng.integers(0, 3))))


def learn(replay: FrameReplay, weights: Any, rng: Any) -> Any:
    for _ in range(24):
        pixels, rewards = replay.batch(rng, 128)
        weights = weights - 1e-4 * pixels.T @ (pixels @ weights - rewards)
    return weights


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, game = np.random.default_rng(41), BallGame(41)
    replay, weights = FrameReplay(14_000), np.zeros(DEPTH * SIDE * SIDE)
    for generation in range(26):
        with phase(generation, "play"):
            play(game, replay, 2000)
        with phase(generation, "learn"):
            weights = learn(replay, weights, rng)


if __name__ == "__main__":
    run()
