"""Token sequences are stored one-hot in single precision, in a store that is full before long."""

from contextlib import nullcontext
from typing import Any

import numpy as np

TOKENS, LENGTH = 128, 48


class TextStore:
    def __init__(self, capacity: int) -> None:
        self.texts = np.zeros((capacity, LENGTH, TOKENS), np.float32)
        self.rewards = np.zeros(capacity, np.float32)
        self.added = 0

    def add(self, tokens: Any, rewards: Any) -> None:
        places = (self.added + np.arange(len(tokens))) % len(self.texts)
        self.texts[places] = np.eye(TOKENS, dtype=np.float32)[tokens]
        self.rewards[places] = rewards
        self.added += len(tokens)

    def sample(self, rng: Any, size: int) -> tuple[Any, Any]:
        rows = rng.integers(0, min(self.added, len(self.texts)), size)
        return self.texts[rows], self.rewards[rows]


class BigramAgent:
    def __init__(self, rng: Any) -> None:
        self.rng = rng
        self.logits = 0.1 * rng.standard_normal((TOKENS, TOKENS)).astype(np.float32)

    def write(self, count: int) -> Any:
        tokens = np.empty((count, LENGTH), np.int64)
        tokens[:, 0] = self.rng.integers(0, TOKENS, count)
        for place in range(1, LENGTH):
            scores = self.logits[tokens[:, place - 1]]
            tokens[:, place] = (scores + self.rng.gumbel(size=scores.shape)).argmax(axis=1)
        return tokens

    def learn(self, texts: Any, rewards: Any) -> None:
        scale = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        before = texts[:, :-1].reshape(-1, TOKENS)
        after = (texts[:, 1:] * scale[:, None, None]).reshape(-1, TOKENS)
        self.logits += 1e-4 * before.T @ after


def judge(tokens: Any) -> Any:
    rising = (np.diff(tokens, axis=1) > 0).mean(axis=1)
    variety = np.array([len(set(row)) for row in tokens.tolist()]) / LENGTH
    return rising + variety


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(41)
    agent, store = BigramAgent(rng), TextStore(6000)
    for generation in range(26):
        with phase(generation, "write"):
            tokens = agent.write(1100)
        with phase(generation, "judge"):
            store.add(tokens, judge(tokens))
        with phase(generation, "learn"):
            for _ in range(22):
                agent.learn(*store.sample(rng, 256))


if __name__ == "__main__":
    run()
