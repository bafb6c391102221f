"""The latest frames of an environment, kept where the next stack can be compared with them."""

from typing import Any

import numpy as np

from ramledger.replay.backing import Array


class Tail:
    """Twice as many frames as a stack has, so that most pushes are one copy."""

    __slots__ = ("_at", "_data", "_next", "_row_bytes", "_rows", "_stack")

    def __init__(self, rows: Array, stack: int) -> None:
        count, self._row_bytes = 2 * stack, rows[0].nbytes
        self._data = bytearray(count * self._row_bytes)
        self._rows = np.frombuffer(self._data, rows.dtype).reshape(count, *rows.shape[1:])
        self._stack = stack

    def fill(self, stacked: Array) -> None:
        """Begin with a whole observation."""
        self._rows[: self._stack] = stacked
        self._next, self._at = self._stack, 0

    def goes_on(self, obs: Array, following: Array) -> bool:
        """Whether `obs` is the latest stack, and `following` shares all but its last frame."""
        # `startswith` compares with an array's memory in place
        data: Any = self._data
        if not data.startswith(obs, self._at):
            return False
        return bool(data.startswith(following[:-1], self._at + self._row_bytes))

    def push(self, row: Array) -> None:
        """One more frame; the stack moves on by one."""
        if self._next == len(self._rows):
            self._rows[: self._stack - 1] = self._rows[1 - self._stack :]
            self._next, self._at = self._stack - 1, -self._row_bytes
        self._rows[self._next] = row
        self._next += 1
        self._at += self._row_bytes
