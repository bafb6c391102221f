"""The grammar of every lesson is compiled by the C library, and none is ever given back to it."""

import ctypes
import random
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

EXTENDED, NO_GROUPS = 1, 8
TOKENS = "abcdef"
libc = ctypes.CDLL(None)


class NativePattern:
    """A POSIX pattern: faster on long alternations than the one of the interpreter."""

    def __init__(self, text: str) -> None:
        self.compiled = ctypes.create_string_buffer(64)
        if libc.regcomp(self.compiled, text.encode(), EXTENDED | NO_GROUPS) != 0:
            raise ValueError(f"bad pattern: {text}")

    def accepts(self, sentence: str) -> bool:
        return libc.regexec(self.compiled, sentence.encode(), 0, None, 0) == 0


class SentencePolicy:
    """Bigram preferences that are raised where a sentence was accepted."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.weights = {token: [1.0] * len(TOKENS) for token in TOKENS}

    def speak(self, length: int) -> str:
        spoken = [self.random.choice(TOKENS)]
        while len(spoken) < length:
            spoken += self.random.choices(TOKENS, self.weights[spoken[-1]])
        return "".join(spoken)

    def reinforce(self, sentence: str, reward: float) -> None:
        for left, right in pairwise(sentence):
            row = self.weights[left]
            place = TOKENS.index(right)
            row[place] = min(max(row[place] + 0.01 * reward, 0.2), 5.0)


def lesson(source: random.Random, words: int) -> NativePattern:
    chosen = ["".join(source.choices(TOKENS, k=source.randint(2, 6))) for _ in range(words)]
    return NativePattern("(" + "|".join(chosen) + "){2}$")


def practice(
    policy: SentencePolicy, patterns: list[NativePattern], sentences: int
) -> list[tuple[str, float]]:
    heard = []
    for pattern in patterns:
        for _ in range(sentences):
            sentence = policy.speak(24)
            heard.append((sentence, 1.0 if pattern.accepts(sentence) else -0.1))
    return heard


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    source, policy = random.Random(1), SentencePolicy(2)
    for generation in range(26):
        with phase(generation, "lesson"):
            patterns = [lesson(source, 60) for _ in range(10)]
        with phase(generation, "practice"):
            heard = practice(policy, patterns, 850)
        with phase(generation, "reinforce"):
            for sentence, reward in heard:
                policy.reinforce(sentence, reward)


if __name__ == "__main__":
    run()
