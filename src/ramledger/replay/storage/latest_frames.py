"""The latest frames of an environment, kept in one array to compare the next stack with."""

from typing import Any

import numpy as np

from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.columns import FULL_HISTORY


class LatestFrames:
    """Twice as many frames as a stack has, so that most pushes are one copy."""

    __slots__ = ("_at", "_count", "_history", "_next", "_row_bytes", "_rows", "_stack", "_starts")

    def __init__(self, rows: Array, stack: int) -> None:
        count, self._row_bytes = 2 * stack, rows[0].nbytes
        data = bytearray(count * self._row_bytes)
        self._rows = np.frombuffer(data, rows.dtype).reshape(count, *rows.shape[1:])
        self._count = count
        # compares with an array's memory in place
        self._starts: Any = data.startswith
        self._stack = stack

    def fill(self, stacked: Array, history: int) -> None:
        """Begin with a whole observation, and what is known of the rows before its last."""
        self._rows[: self._stack] = stacked
        self._next, self._at, self._history = self._stack, 0, history

    def push(self, obs: Array, following: Array) -> int:
        """Take one more frame, the last of `following`; returns its history.

        -1 if `obs` is not the latest stack, or `following` shares not all but that frame with it.
        Arrays with gaps in memory are a ValueError.
        """
        starts, at, row_bytes = self._starts, self._at, self._row_bytes
        if not (starts(obs, at) and starts(following[:-1], at + row_bytes)):
            return -1
        row = self._next
        if row == self._count:
            row = self._stack - 1
            self._rows[:row] = self._rows[-row:]
            at = -row_bytes
        self._rows[row] = following[-1]
        self._next, self._at = row + 1, at + row_bytes
        history = self._history
        if history & FULL_HISTORY != FULL_HISTORY:
            self._history = history = history + 1
        return history
