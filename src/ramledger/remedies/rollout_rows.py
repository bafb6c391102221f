"""The observations of a rollout as stable-baselines3 uses them, without its copy and with each
frame stored once.

`rows[step] = observations` stores; `swapaxes(0, 1).reshape(…)`, which copies an array, is a view
here; indexing that view with an array of numbers gathers a batch, bit for bit the same.
"""

from typing import Any

import numpy as np

from ramledger.remedies.frame_stacks import continues, possible_stacks

_LOOKED_AT = 64  # steps, at most
_ENOUGH_MOVES = 8  # of each environment
_MOST = 0.75
_UNKNOWN = 0


class RolloutRows:
    """(steps, environments, …); `stack` is 0 while nobody knows whether images are stacks."""

    def __init__(self, steps: int, envs: int, shape: tuple[int, ...], dtype: Any, stack: int):
        self.shape = (steps, envs, *shape)
        self.dtype = np.dtype(dtype)
        self.stack = stack
        self._votes = dict.fromkeys(possible_stacks(shape), 0) if stack == _UNKNOWN else {}
        if not self._votes and stack == _UNKNOWN:
            self.stack = 1
        self._moves = 0
        self._last: Any = None
        if self.stack > 1:
            self._store_frames()
        else:
            self._rows = np.zeros(self.shape, self.dtype)

    @property
    def nbytes(self) -> int:
        return int(self._frames.nbytes if self.stack > 1 else self._rows.nbytes)

    # ---- storing -------------------------------------------------------------------------------

    def __setitem__(self, step: Any, value: Any) -> None:
        if self.stack > 1:
            self._set_frames(int(step), np.asarray(value, self.dtype).reshape(self.shape[1:]))
            return
        self._rows[step] = value
        if self._votes:
            self._look(int(step))

    def _look(self, step: int) -> None:
        """Most steps of an environment that moves continue its stack; an episode may begin."""
        if step:
            before, after = self._rows[step - 1], self._rows[step]
            moves = (before != after).any(axis=tuple(range(1, before.ndim)))
            self._moves += int(moves.sum())
            for stack in self._votes:
                self._votes[stack] += int((continues(before, after, stack) & moves).sum())
        if self._moves >= _ENOUGH_MOVES * self.shape[1]:
            sure = [n for n, votes in self._votes.items() if votes >= _MOST * self._moves]
            self._decide(max(sure, default=1), step)
        elif step >= _LOOKED_AT:
            self._decide(1, step)

    def _decide(self, stack: int, step: int) -> None:
        self._votes = {}
        self.stack = stack
        if stack > 1:
            rows = self._rows
            self._store_frames()
            for number in range(step + 1):
                self._set_frames(number, rows[number])
            del self._rows

    def _store_frames(self) -> None:
        steps, envs, depth, *sides = self.shape
        self._new = depth // self.stack
        self._frames = np.zeros((steps, envs, self._new, *sides), self.dtype)
        self._age = np.zeros((steps, envs), np.uint8)  # steps since a stack was stored whole
        self._heads: dict[tuple[int, int], Any] = {}  # its frames but the newest

    def _set_frames(self, step: int, value: Any) -> None:
        new = self._new
        self._frames[step] = value[:, -new:]
        if step == 0 or self._last is None:
            follows = np.zeros(self.shape[1], bool)
        else:
            follows = continues(self._last, value, self.stack)
            older = self._age[step - 1].astype(int) + 1
            self._age[step] = np.where(follows, np.minimum(older, self.stack - 1), 0)
        for env in np.flatnonzero(~follows):
            self._age[step, env] = 0
            self._heads[step, int(env)] = value[env, :-new].copy()
        self._last = value.copy()

    # ---- reading -------------------------------------------------------------------------------

    def at(self, steps: Any, envs: Any) -> Any:
        """Observations of these steps of these environments."""
        if self.stack == 1 or self.stack == _UNKNOWN:
            return self._rows[steps, envs]
        new, stack = self._new, self.stack
        found = np.empty((len(steps), *self.shape[2:]), self.dtype)
        ages = self._age[steps, envs]
        for place in range(stack):
            back = stack - 1 - place
            reach = ages >= back
            found[reach, place * new : (place + 1) * new] = self._frames[
                steps[reach] - back, envs[reach]
            ]
        for number in np.flatnonzero(ages < stack - 1):
            age = int(ages[number])
            head = self._heads[int(steps[number]) - age, int(envs[number])]
            found[number, : (stack - 1 - age) * new] = head[age * new :]
        return found

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        steps, envs = self.shape[:2]
        every = np.divmod(np.arange(steps * envs), envs)
        return self.at(*every).reshape(self.shape).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def swapaxes(self, one: int, other: int) -> Any:
        """What stable-baselines3 calls before it flattens."""
        if {one, other} == {0, 1}:
            return _Swapped(self)
        return np.asarray(self).swapaxes(one, other)

    def __getattr__(self, name: str) -> Any:
        # whatever else an array can do, a copy of all of it does
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


class _Swapped:
    """Environments first; flattened, it is indexed by number."""

    def __init__(self, rows: RolloutRows) -> None:
        self._rows = rows

    def reshape(self, *shape: Any) -> Any:
        steps, envs, *rest = self._rows.shape
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if tuple(wanted) == (steps * envs, *rest):
            return FlatRows(self._rows)
        return np.asarray(self._rows).swapaxes(0, 1).reshape(*shape)


class FlatRows:
    """One row for each step of each environment, environment by environment."""

    def __init__(self, rows: RolloutRows) -> None:
        self.rows = rows
        steps, envs, *rest = rows.shape
        self.shape, self.dtype = (steps * envs, *rest), rows.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, np.ndarray) and key.dtype.kind in "iu" and key.ndim == 1:
            envs, steps = np.divmod(key, self.rows.shape[0])
            return self.rows.at(steps, envs)
        return np.asarray(self)[key]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        every = np.arange(len(self))
        return self[every].astype(dtype or self.dtype, copy=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)
