"""The observations of a rollout for the code of stable-baselines3: no copy, each frame once.

It stores `rows[step] = observations`, flattens by `swapaxes(0, 1).reshape(…)` and indexes that with
an array of numbers. Whatever else is done with them is done with an array, from then on.
"""

from typing import Any

import numpy as np

from ramledger.remedies.byte_codes import NO_CODE
from ramledger.remedies.frame_stacks import UNKNOWN, StackSearch
from ramledger.remedies.frame_timeline import FrameTimeline


def no_copy(steps: int, envs: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros as (steps, environments, …) that are flattened without a copy."""
    return np.zeros((envs, steps, *shape), dtype).swapaxes(0, 1)


class RolloutRows:
    """(steps, environments, …); `stack` is 0 while nobody knows whether images are stacks."""

    def __init__(
        self, steps: int, envs: int, shape: tuple[int, ...], dtype: Any, stack: int, divisor: int
    ) -> None:
        self.shape = (steps, envs, *shape)
        self.dtype = np.dtype(dtype)
        self._divisor = divisor
        self._array: Any = None
        self._timeline: FrameTimeline | None = None
        self._first_steps: list[Any] = []
        self._search = StackSearch(shape)
        self.stack = stack or self._search.stack
        if self.stack != UNKNOWN:
            self._decide(self.stack)

    @property
    def divisor(self) -> int:
        """What bytes are divided by; 0: numbers are stored as they are."""
        return self._divisor if self._timeline is None else self._timeline.divisor

    @property
    def used_bytes(self) -> int:
        """What the stored steps take."""
        if self._timeline is not None:
            return self._timeline.used_bytes
        held = self._first_steps if self._array is None else [self._array]
        return sum(one.nbytes for one in held)

    # ---- storing -------------------------------------------------------------------------------

    def __setitem__(self, step: Any, value: Any) -> None:
        try:
            is_stored = type(step) is int and self._store(step, value)
        except Exception:  # numpy says itself what is wrong with a value
            is_stored = False
        if not is_stored:
            self.as_array()[step] = value

    def _store(self, step: int, value: Any) -> bool:
        """False where it is not the next step."""
        if self._timeline is None:
            if self._array is not None or step != len(self._first_steps) or step >= self.shape[0]:
                return False
            now = np.empty(self.shape[1:], self.dtype)
            now[...] = value
            self._first_steps.append(now)
            if step:
                self._search.see(*self._first_steps[-2:])
                if self._search.stack != UNKNOWN:
                    self._decide(self._search.stack)
            return True
        if step != self._timeline.stored_steps or step >= self.shape[0]:
            return False
        self._timeline.append(value)
        if self.stack == 1 and not self._timeline.divisor:
            self.as_array()
        return True

    def _decide(self, stack: int) -> None:
        self.stack = stack
        if stack == 1 and self._divisor == NO_CODE:
            self.as_array()
            return
        steps, envs, *shape = self.shape
        timeline = FrameTimeline(steps, envs, tuple(shape), self.dtype, stack, self._divisor)
        for observations in self._first_steps:
            timeline.append(observations)
        self._timeline, self._first_steps = timeline, []
        if stack == 1 and not timeline.divisor:
            self.as_array()

    # ---- reading -------------------------------------------------------------------------------

    @property
    def is_compact(self) -> bool:
        return self._array is None

    def as_array(self) -> Any:
        """An array from now on, for all who hold these rows."""
        if self._array is None:
            self._array = self._expanded()
            self._divisor = self.divisor
            self._timeline, self._first_steps = None, []
        return self._array

    def _expanded(self) -> Any:
        if self._timeline is not None:
            return self._timeline.expanded()
        found = no_copy(self.shape[0], self.shape[1], self.shape[2:], self.dtype)
        for step, observations in enumerate(self._first_steps):
            found[step] = observations
        return found

    def swapaxes(self, one: int, other: int) -> Any:
        """What stable-baselines3 calls before it flattens."""
        timeline = self._timeline
        if timeline is None or {one, other} != {0, 1} or timeline.stored_steps < self.shape[0]:
            return self.as_array().swapaxes(one, other)
        return _Swapped(self)

    def at(self, numbers: Any) -> Any:
        """Observations by their numbers in the flattened rollout."""
        if self._timeline is None:
            return self.flat_array()[numbers]
        return self._timeline.at(numbers)

    def flat_array(self) -> Any:
        """The same memory as `as_array`."""
        return self.as_array().swapaxes(0, 1).reshape(-1, *self.shape[2:])

    def copied(self) -> Any:
        """An array of its own."""
        return self._expanded() if self._array is None else self._array.copy()

    def __getitem__(self, key: Any) -> Any:
        return self.as_array()[key]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return _given(self.as_array(), dtype, copy)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copied()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.copied().__reduce_ex__(protocol)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.as_array(), name)


class _Swapped:
    """Environments first, about to be flattened."""

    def __init__(self, rows: RolloutRows) -> None:
        self._rows = rows

    def reshape(self, *shape: Any) -> Any:
        steps, envs, *rest = self._rows.shape
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if tuple(wanted) == (steps * envs, *rest):
            return FlatRows(self._rows)
        return self._rows.as_array().swapaxes(0, 1).reshape(*shape)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._rows.as_array().swapaxes(0, 1), name)


class FlatRows:
    """One row for each step of each environment, environment by environment."""

    def __init__(self, rows: RolloutRows) -> None:
        self.rows = rows
        steps, envs, *rest = rows.shape
        self.shape, self.dtype = (steps * envs, *rest), rows.dtype

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, np.ndarray) and key.dtype.kind in "iu" and key.ndim == 1:
            return self.rows.at(key)
        return self.as_array()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.as_array()[key] = value

    def as_array(self) -> Any:
        """An array from now on."""
        return self.rows.flat_array()

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return _given(self.as_array(), dtype, copy)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._copied()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._copied().__reduce_ex__(protocol)

    def _copied(self) -> Any:
        return self.rows.copied().swapaxes(0, 1).reshape(self.shape)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.as_array(), name)


def _given(array: Any, dtype: Any, copy: Any) -> Any:
    """As numpy asks for it in `__array__`."""
    if copy:
        return array.astype(dtype or array.dtype)
    return array if dtype is None else array.astype(dtype, copy=False)
