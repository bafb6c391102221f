"""In generation 11 the search drones change to a finer map of the valley, and then stay with it."""

from contextlib import nullcontext
from typing import Any

import numpy as np


class Belief:
    def __init__(self, side: int) -> None:
        self.side = side
        self.chance = np.full((side, side), 1.0 / side**2)
        self.height = np.hypot(*np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j])
        self.seen = np.zeros((side, side), np.int32)

    def refined(self, factor: int) -> "Belief":
        finer = Belief(self.side * factor)
        finer.chance = np.kron(self.chance, np.ones((factor, factor))) / factor**2
        return finer

    def look(self, row: int, column: int, reach: int) -> float:
        rows = slice(max(row - reach, 0), row + reach)
        columns = slice(max(column - reach, 0), column + reach)
        found = float(self.chance[rows, columns].sum())
        self.chance[rows, columns] *= 0.8
        self.seen[rows, columns] += 1
        return found


def search(belief: Belief, policy: Any, rng: Any, steps: int) -> float:
    places = rng.random((8, 2)) * belief.side
    found = 0.0
    for _ in range(steps):
        places = places + belief.side / 60 * np.tanh(rng.normal(size=(8, 2)) + policy)
        places %= belief.side
        for row, column in places.astype(int).tolist():
            found += belief.look(row, column, belief.side // 50)
    belief.chance /= belief.chance.sum()
    return found


def improve(belief: Belief, policy: Any, rng: Any) -> Any:
    trials = policy + 0.3 * rng.normal(size=(4, 8, 2))
    scores = [search(belief, trial, rng, 260) for trial in trials]
    return 0.5 * policy + 0.5 * trials[int(np.argmax(scores))]


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, belief, policy = np.random.default_rng(27), Belief(700), np.zeros((8, 2))
    for generation in range(28):
        with phase(generation, "map"):
            if generation == 11:
                belief = belief.refined(3)
        with phase(generation, "improve"):
            policy = improve(belief, policy, rng)
        with phase(generation, "evaluate"):
            search(belief, policy, rng, 400)


if __name__ == "__main__":
    run()
