"""The match objects of correct answers are kept for a report,
and each keeps its whole transcript.
"""

import re
from contextlib import nullcontext
from typing import Any

import numpy as np

ALPHABET = np.frombuffer(b" 0123456789abcdefghijklmnopqrstuvwxyz.:\n", np.uint8)
ANSWER = re.compile(r"answer: (\d)")


class Agent:
    """A character model with a table of logits for each previous character."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.logits = self.rng.standard_normal((len(ALPHABET), len(ALPHABET)))

    def stream(self, steps: int, width: int) -> Any:
        chances = np.exp(self.logits)
        bounds = np.cumsum(chances / chances.sum(1, keepdims=True), axis=1)
        current = self.rng.integers(0, len(ALPHABET), width)
        for _ in range(steps):
            draws = self.rng.random(width)[:, None]
            current = np.minimum((draws > bounds[current]).sum(1), len(ALPHABET) - 1)
            yield current


class Report:
    def __init__(self) -> None:
        self.correct: list[Any] = []

    def summary(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for match in self.correct:
            counts[match.group(1)] = counts.get(match.group(1), 0) + 1
        return counts


def transcript(agent: Agent, question: int) -> tuple[Any, str]:
    codes = np.stack(list(agent.stream(200, 1000)))
    text = ALPHABET[codes].tobytes().decode("ascii")
    return codes, f"{text}\nanswer: {question % 10}\n"


def write(agent: Agent, report: Report, questions: range) -> list[tuple[Any, float]]:
    graded = []
    for question in questions:
        codes, text = transcript(agent, question)
        match = ANSWER.search(text)
        if match is not None and int(match.group(1)) == question % 10:
            report.correct.append(match)
        graded.append((codes, text.count("ab") / len(text)))
    return graded


def learn(agent: Agent, graded: list[tuple[Any, float]]) -> None:
    baseline = sum(reward for _, reward in graded) / len(graded)
    for codes, reward in graded:
        pairs = codes[:-1] * len(ALPHABET) + codes[1:]
        counts = np.bincount(pairs.ravel(), minlength=len(ALPHABET) ** 2)
        agent.logits += 10.0 * (reward - baseline) * counts.reshape(agent.logits.shape) / codes.size


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    agent, report = Agent(21), Report()
    for generation in range(30):
        with phase(generation, "write"):
            graded = write(agent, report, range(generation * 18, generation * 18 + 18))
        with phase(generation, "learn"):
            learn(agent, graded)
        with phase(generation, "summarize"):
            report.summary()


if __name__ == "__main__":
    run()
