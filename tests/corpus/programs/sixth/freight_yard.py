"""A small freight yard with robots on a grid, used by the training scripts of this folder."""

from collections import defaultdict
from typing import Any

import numpy as np

MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])


class TrafficBook:
    """Counts how often a cell was used at a tick, for each shift."""

    def __init__(self) -> None:
        self.shifts: dict[int, dict[tuple[int, int, int], int]] = {}

    def count(self, shift: int, tick: int, cells: Any) -> None:
        page = self.shifts.setdefault(shift, defaultdict(int))
        for row, column in cells.tolist():
            page[tick, row, column] += 1

    def busiest(self, shift: int) -> int:
        return max(self.shifts[shift].values())


class Yard:
    def __init__(self, robots: int, size: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.robots, self.size = robots, size
        self.book = TrafficBook()

    def play(self, shift: int, preferences: Any, ticks: int) -> float:
        cells = self.rng.integers(0, self.size, (self.robots, 2))
        goals = self.rng.integers(0, self.size, (self.robots, 2))
        delivered = 0
        for tick in range(ticks):
            toward = (goals - cells) @ MOVES.T + preferences
            noise = self.rng.gumbel(size=toward.shape)
            cells = np.clip(cells + MOVES[(toward + noise).argmax(axis=1)], 0, self.size - 1)
            done = (cells == goals).all(axis=1)
            delivered += int(done.sum())
            goals[done] = self.rng.integers(0, self.size, (int(done.sum()), 2))
            self.book.count(shift, tick, cells)
        return delivered - 0.1 * self.book.busiest(shift)
