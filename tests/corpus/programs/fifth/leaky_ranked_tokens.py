"""Rankings of the whole vocabulary are cut to their first ten in place and leave holes
in the heap.
"""

from collections import deque
from contextlib import nullcontext
from typing import Any

import numpy as np

VOCABULARY = 8192
TOKENS = list(range(VOCABULARY))


class WordAgent:
    """Log-linear word choice: a context vector times an output table."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.table = self.rng.standard_normal((64, VOCABULARY)) * 0.1

    def scores(self, context: Any) -> list[float]:
        return (context @ self.table).tolist()

    def reinforce(self, context: Any, token: int, reward: float) -> None:
        self.table[:, token] += 0.01 * reward * context


class RecentRankings:
    """The best tokens of the last prompts, for the repetition penalty."""

    def __init__(self, prompts: int) -> None:
        self.best: deque[list[int]] = deque(maxlen=prompts)

    def penalty(self, token: int) -> float:
        shown = list(self.best)[-50:]
        return sum(token in ranking for ranking in shown) / 50.0


def rank(scores: list[float]) -> list[int]:
    return sorted(TOKENS, key=scores.__getitem__, reverse=True)


def shorten(rankings: list[list[int]]) -> None:
    for ranking in rankings:
        del ranking[10:]


def decode(agent: WordAgent, contexts: Any, recent: RecentRankings) -> list[int]:
    rankings = [rank(agent.scores(context)) for context in contexts]
    chosen = [ranking[int(agent.rng.geometric(0.4)) % 10] for ranking in rankings]
    shorten(rankings)
    recent.best.extend(rankings)
    return chosen


def learn(agent: WordAgent, contexts: Any, chosen: list[int], recent: RecentRankings) -> float:
    total = 0.0
    for context, token in zip(contexts, chosen, strict=True):
        reward = float(token % 7 == 3) - recent.penalty(token)
        agent.reinforce(context, token, reward)
        total += reward
    return total / len(chosen)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    agent, recent = WordAgent(31), RecentRankings(20_000)
    for generation in range(26):
        contexts = agent.rng.standard_normal((280, 64))
        with phase(generation, "decode"):
            chosen = decode(agent, contexts, recent)
        with phase(generation, "learn"):
            learn(agent, contexts, chosen, recent)


if __name__ == "__main__":
    run()
