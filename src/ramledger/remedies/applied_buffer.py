"""The buffer that `--apply replay` makes: ours, with frame stacks found by looking at the data.

The first steps show whether the first axis of an image is a stack of frames: each next observation
then begins with what the one before ended with. From there on only new frames are stored.
"""

import os
import tempfile
from math import prod
from typing import Any

import numpy as np
from stable_baselines3.common import buffers

from ramledger.remedies.frame_stacks import continues, moved, possible_stacks
from ramledger.remedies.reporting import Report
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.sb3_buffer import LedgerReplayBuffer
from ramledger.units import format_bytes

_LOOKED_AT = 64  # steps, at most
_ENOUGH_MOVES = 8  # steps in which something moved


class AppliedReplayBuffer(LedgerReplayBuffer):
    """Made in the place of a buffer of stable-baselines3."""

    is_applied_by_ramledger = True
    report = Report("replay")
    compression = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, compress=self.compression)
        # the option of stable-baselines3 for the same end, which draws other indices
        self._draws_optimized = bool(
            kwargs.get("optimize_memory_usage", args[5] if len(args) > 5 else False)
        )
        self._stacks = possible_stacks(self.obs_shape)
        self._first_steps: list[tuple[Any, ...]] = []
        self._moves = 0
        if not self._stacks:
            self._say_saving("each observation is stored once")

    # ---- frames --------------------------------------------------------------------------------

    def add(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any,
        infos: list[dict[str, Any]],
    ) -> None:  # fmt: skip
        """One step of every environment; the first ones are kept until stacks are known."""
        super().add(obs, next_obs, action, reward, done, infos)
        if self._stacks:
            try:
                self._look(obs, next_obs, action, reward, done, infos)
            except Exception as error:  # the step is stored already, as it is
                self._stop_looking(f"each observation is stored once ({type(error).__name__})")

    def _look(self, obs: Any, next_obs: Any, *rest: Any) -> None:
        here, there = np.array(obs), np.array(next_obs)
        self._first_steps.append((here, there, *(np.array(one) for one in rest[:3]), rest[3]))
        goes_on = ~np.asarray(rest[2], bool).reshape(self.n_envs)
        pairs = [(one.reshape(self.n_envs, *self.obs_shape)[goes_on]) for one in (here, there)]
        before, after = pairs
        self._moves += moved(before, after)
        self._stacks = [one for one in self._stacks if continues(before, after, one).all()]
        if self._stacks and self._moves >= _ENOUGH_MOVES:
            self._store_frames(max(self._stacks))
        elif not self._stacks or len(self._first_steps) >= _LOOKED_AT:
            self._stop_looking("each observation is stored once")

    def _store_frames(self, stack: int) -> None:
        """Begin anew with single frames, and the steps so far."""
        steps = self._first_steps
        self._frame_stack = stack
        core = self.core
        self._adopt(
            ReplayBuffer(
                self._schema(), core.capacity, n_envs=self.n_envs, seed=self._seed,
                compress=core.compress,
            )
        )  # fmt: skip
        self.pos, self.full = 0, False
        self._stacks = []
        for step in steps:
            super().add(*step)
        self._stop_looking(f"each frame is stored once, stacks of {stack} are made when drawn")

    def _stop_looking(self, text: str) -> None:
        self._stacks, self._first_steps = [], []
        self._say_saving(text)

    def _say_saving(self, text: str) -> None:
        rows = self.buffer_size * self.n_envs
        each = _observation_bytes(self.observation_space)
        usual = rows * each * (1 if self._draws_optimized else 2)
        stack = self._frame_stack if isinstance(self._frame_stack, int) else 1
        own = rows * each // stack
        if self.compression:
            text += f" and compressed with {self.compression}"
        self.report.applied(
            f"{text}: about {format_bytes(own)} instead of {format_bytes(usual)} for "
            f"{rows:,} transitions",
            max(0, usual - own),
        )

    # ---- drawing and saving --------------------------------------------------------------------

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """As stable-baselines3 draws, also where it stores observations once itself."""
        if not self._draws_optimized or self.core.size != self.size() * self.n_envs:
            return super().sample(batch_size, env)
        if self.full:
            drawn = np.random.randint(1, self.buffer_size, size=batch_size) + self.pos
            return self._get_samples(drawn % self.buffer_size, env=env)
        return self._get_samples(np.random.randint(0, self.pos, size=batch_size), env=env)

    def __getstate__(self) -> dict[str, Any]:
        if self.checkpoint is None:
            self.checkpoint = tempfile.mkdtemp(prefix="replay-buffer-", dir=os.getcwd())
        return super().__getstate__()


class AppliedDictReplayBuffer(AppliedReplayBuffer, buffers.DictReplayBuffer):
    """For Dict observations."""


class AppliedNStepReplayBuffer(AppliedReplayBuffer, buffers.NStepReplayBuffer):
    """For n-step returns."""


_APPLIED: dict[str, type[AppliedReplayBuffer]] = {
    "ReplayBuffer": AppliedReplayBuffer,
    "DictReplayBuffer": AppliedDictReplayBuffer,
    "NStepReplayBuffer": AppliedNStepReplayBuffer,
}


def applied_class(name: str, compress: str, report: Report) -> type:
    """The class that stands for one of stable-baselines3's, which it is a subclass of."""
    AppliedReplayBuffer.report, AppliedReplayBuffer.compression = report, compress
    return _APPLIED[name]


def _observation_bytes(space: Any) -> int:
    parts = space.spaces.values() if hasattr(space, "spaces") else (space,)
    return sum(prod(part.shape or (1,)) * np.dtype(part.dtype).itemsize for part in parts)
