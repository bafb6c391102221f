"""The latest frames of an environment, kept where the next stack can be compared with them."""

from typing import Any

import numpy as np

from ramledger.replay.backing import Array
from ramledger.replay.columns import FULL_HISTORY


class Tail:
    """Twice as many frames as a stack has, so that most pushes are one copy."""

    __slots__ = ("_at", "_data", "_history", "_next", "_row_bytes", "_rows", "_stack")

    def __init__(self, rows: Array, stack: int) -> None:
        count, self._row_bytes = 2 * stack, rows[0].nbytes
        self._data = bytearray(count * self._row_bytes)
        self._rows = np.frombuffer(self._data, rows.dtype).reshape(count, *rows.shape[1:])
        self._stack = stack

    def fill(self, stacked: Array, history: int) -> None:
        """Begin with a whole observation, and what is known of the rows before its last."""
        self._rows[: self._stack] = stacked
        self._next, self._at, self._history = self._stack, 0, history

    def goes_on(self, obs: Array, following: Array) -> bool:
        """Whether `obs` is the latest stack, and `following` shares all but its last frame."""
        # `startswith` compares with an array's memory in place
        starts: Any = self._data.startswith
        at = self._at
        return bool(starts(obs, at) and starts(following[:-1], at + self._row_bytes))

    def push(self, row: Array) -> int:
        """One more frame; the stack moves on by one. Returns the frame's history."""
        at = self._next
        if at == len(self._rows):
            at = self._stack - 1
            self._rows[:at] = self._rows[-at:]
            self._at = -self._row_bytes
        self._rows[at] = row
        self._next = at + 1
        self._at += self._row_bytes
        if self._history & FULL_HISTORY != FULL_HISTORY:
            self._history += 1
        return self._history
