"""The frames of each environment in the order in which they were seen, each stored once.

A stack is a window of the timeline. A stack that does not continue the one before is stored whole,
so the timeline is at most as long as all stacks, and only what is used of it becomes resident.
"""

from math import prod
from typing import Any

import numpy as np

from ramledger.remedies.byte_codes import BY_255, NO_CODE, WHOLE, decoded, encoded

_DECODED_AT_ONCE = 1 << 20  # numbers: they stay in a cache


class FrameTimeline:
    """Observations of `steps` of `envs`; `stack` is 1 for what is no stack."""

    def __init__(
        self, steps: int, envs: int, shape: tuple[int, ...], dtype: Any, stack: int, divisor: int
    ) -> None:
        self.shape, self.stack, self.divisor = shape, stack, divisor
        self.dtype = np.dtype(dtype)
        self.stored_steps = 0
        size = prod(shape) // stack
        self._frames = np.zeros((envs, steps * stack, size), self.dtype if not divisor else "u1")
        self._ends = np.zeros(envs, np.intp)  # frames of each environment
        self._starts = np.zeros((envs, steps), np.intp)  # counted over all environments
        self._now, self._last = (np.zeros((envs, *shape), self.dtype) for _ in range(2))

    @property
    def used_bytes(self) -> int:
        """What the stored steps take."""
        one = self._frames[0, 0].nbytes if self._frames.size else 0
        return int(self._ends.sum()) * one

    # ---- storing -------------------------------------------------------------------------------

    def append(self, observations: Any) -> None:
        """The next step of every environment."""
        self._now[...] = observations
        follows = self._follows()
        while not self._write(follows):
            self._give_up_code()
        self.stored_steps += 1
        self._now, self._last = self._last, self._now

    def _follows(self) -> Any:
        """Of which environments the older frames are the newer ones of the step before."""
        envs = len(self._frames)
        if not self.stored_steps or self.stack == 1:
            return np.full(envs, self.stack == 1)
        frame_bytes = self._now[0].nbytes // self.stack
        word = np.uint8 if frame_bytes % 8 else np.uint64
        now, last = (one.reshape(envs, -1).view(word) for one in (self._now, self._last))
        new = now.shape[1] // self.stack
        return (now[:, :-new] == last[:, new:]).all(axis=1)

    def _write(self, follows: Any) -> bool:
        """False, and nothing changed, where the code is not exact."""
        envs, _, size = self._frames.shape
        stacks = self._now.reshape(envs, self.stack, size)
        values = stacks[:, -1:] if follows.all() else stacks
        if self.divisor:
            values = encoded(np.ascontiguousarray(values), self.divisor)
            if values is None:
                return False
        going = np.flatnonzero(follows)
        self._frames[going, self._ends[going]] = values[going, -1]
        self._ends[going] += 1
        for env in np.flatnonzero(~follows):
            end = self._ends[env]
            self._frames[env, end : end + self.stack] = values[env]
            self._ends[env] += self.stack
        first = np.arange(envs) * self._frames.shape[1]
        self._starts[:, self.stored_steps] = first + self._ends - self.stack
        return True

    def _give_up_code(self) -> None:
        """To the next code under which all that is stored is exact, in the end to none."""
        used = [frames[:end] for frames, end in zip(self._frames, self._ends, strict=True)]
        if self.divisor == WHOLE and all((codes <= 1).all() for codes in used):
            self.divisor = BY_255
            for codes in used:
                codes *= BY_255
            return
        floats = np.zeros(self._frames.shape, self.dtype)
        for target, codes in zip(floats, used, strict=True):
            decoded(codes, self.dtype, self.divisor, out=target[: len(codes)])
        self._frames, self.divisor = floats, NO_CODE

    # ---- reading -------------------------------------------------------------------------------

    def at(self, numbers: Any) -> Any:
        """Observations by number: step by step, environment after environment."""
        starts = self._starts.reshape(-1)[numbers]
        windows = self._windows()
        if not self.divisor:
            return windows[starts].reshape(-1, *self.shape)
        found = np.empty((len(starts), windows.shape[1]), self.dtype)
        rows = max(1, _DECODED_AT_ONCE // windows.shape[1])
        for begin in range(0, len(starts), rows):
            part = slice(begin, begin + rows)
            decoded(windows[starts[part]], self.dtype, self.divisor, out=found[part])
        return found.reshape(-1, *self.shape)

    def _windows(self) -> Any:
        envs, length, size = self._frames.shape
        item = self._frames.itemsize
        return np.lib.stride_tricks.as_strided(
            self._frames,
            (max(envs * length - self.stack + 1, 0), self.stack * size),
            (size * item, item),
            writeable=False,
        )

    def expanded(self) -> Any:
        """All of it as (steps, environments, …), in memory environment after environment."""
        envs, steps = self._starts.shape
        found = np.zeros((envs, steps, *self.shape), self.dtype)
        for env in range(envs):
            for step in range(0, self.stored_steps, 16):
                end = min(step + 16, self.stored_steps)
                found[env, step:end] = self.at(env * steps + np.arange(step, end))
        return found.swapaxes(0, 1)
