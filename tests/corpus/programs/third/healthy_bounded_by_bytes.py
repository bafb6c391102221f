"""Episodes of any length are kept up to a number of bytes; the oldest go first."""

import itertools
from collections import OrderedDict
from contextlib import nullcontext
from typing import Any

import numpy as np

EpisodeArrays = dict[str, Any]


class EpisodeStore:
    def __init__(self, byte_limit: int) -> None:
        self.byte_limit = byte_limit
        self.bytes_held = 0
        self.by_id: OrderedDict[int, EpisodeArrays] = OrderedDict()

    def add(self, number: int, episode: EpisodeArrays) -> None:
        self.by_id[number] = episode
        self.bytes_held += self.size_of(episode)
        while self.bytes_held > self.byte_limit:
            _, dropped = self.by_id.popitem(last=False)
            self.bytes_held -= self.size_of(dropped)

    @staticmethod
    def size_of(episode: EpisodeArrays) -> int:
        return sum(int(column.nbytes) for column in episode.values())

    def sample(self, rng: Any, count: int) -> list[EpisodeArrays]:
        keys = list(self.by_id)
        return [self.by_id[keys[i]] for i in rng.integers(len(keys), size=count)]


def play(rng: Any, longest: int) -> EpisodeArrays:
    length = int(rng.integers(20, longest))
    observations = rng.random((length, 96), np.float32)
    actions = (observations[:, :5] * 3).argmax(axis=1).astype(np.int16)
    return {"observations": observations, "actions": actions, "rewards": observations.sum(axis=1)}


def learn(store: EpisodeStore, rng: Any) -> float:
    total = 0.0
    for episode in store.sample(rng, 160):
        inner = episode["observations"].T @ episode["observations"]
        total += float(np.linalg.eigvalsh(inner)[-1])
    return total


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, store, number = np.random.default_rng(2), EpisodeStore(80 << 20), itertools.count()
    for generation in range(34):
        with phase(generation, "play"):
            for _ in range(30):
                store.add(next(number), play(rng, 1000))
        with phase(generation, "learn"):
            learn(store, rng)


if __name__ == "__main__":
    run()
