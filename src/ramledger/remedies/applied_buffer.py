"""The buffer that `--apply replay` makes: ours, with frame stacks found by looking at the data.

The first steps show whether the first axis of an image is a stack of frames (`frame_stacks`). From
there on only new frames are stored.
"""

import os
import tempfile
from math import prod
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common import buffers
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from ramledger.errors import ConfigError
from ramledger.remedies.frame_stacks import UNKNOWN, StackSearch
from ramledger.remedies.reporting import Report
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.sb3_buffer import LedgerReplayBuffer
from ramledger.replay.storage.backing import Array
from ramledger.units import format_bytes

# since version 2.7
_NStepReplayBuffer: Any = getattr(buffers, "NStepReplayBuffer", buffers.ReplayBuffer)

_TIMEOUT = "TimeLimit.truncated"
# rewards, dones and timeouts of stable-baselines3, float32 each
_THEIR_STEP_BYTES = 12


class AppliedReplayBuffer(LedgerReplayBuffer):
    """Made in the place of a buffer of stable-baselines3."""

    is_applied_by_ramledger = True
    report = Report("replay")
    compression = ""

    def __init__(
        self, buffer_size: int, observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any], device: Any = "auto", n_envs: int = 1,
        optimize_memory_usage: bool = False, handle_timeout_termination: bool = True,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if vars(self):  # made already: Python calls __init__ of what __new__ returns
            return
        if optimize_memory_usage and (handle_timeout_termination or not self._may_be_optimized()):
            raise ConfigError("optimize_memory_usage is not possible for this buffer")
        super().__init__(
            buffer_size, observation_space, action_space, device, n_envs,
            handle_timeout_termination=handle_timeout_termination, compress=self.compression,
            **kwargs,
        )  # fmt: skip
        # the option of stable-baselines3 for the same end, which draws other indices
        self._draws_optimized = optimize_memory_usage
        self._searches = self._new_searches()
        self._first_steps: list[tuple[Any, ...]] = []
        self._look()

    def _may_be_optimized(self) -> bool:
        """Where stable-baselines3 has that option."""
        return type(self) is AppliedReplayBuffer

    # ---- frames --------------------------------------------------------------------------------

    def _new_searches(self) -> dict[str, StackSearch]:
        """By name of the observation field."""
        shapes = self._shapes if self._is_dict else {"": self._shapes}
        return {name: StackSearch(shape) for name, shape in shapes.items()}

    def add(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any,
        infos: list[dict[str, Any]],
    ) -> None:  # fmt: skip
        """One step of every environment; the first ones are kept until stacks are known."""
        super().add(obs, next_obs, action, reward, done, infos)
        if self._searches:
            try:
                self._keep(obs, next_obs, action, reward, done, infos)
                self._look()
            except Exception as error:  # the steps are stored already, as they are
                self._stop_looking(f"each observation is stored once ({type(error).__name__})")

    def _keep(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any,
        infos: list[dict[str, Any]],
    ) -> None:  # fmt: skip
        ends = []  # as `add` does: who handles no timeouts may give anything as infos
        if self.handle_timeout_termination:
            ends = [{_TIMEOUT: info.get(_TIMEOUT, False)} for info in infos]
        here, there = _copied(obs), _copied(next_obs)
        self._first_steps.append((here, there, *map(np.array, (action, reward, done)), ends))
        for name, search in self._searches.items():
            if search.stack == UNKNOWN:
                shape = (self.n_envs, *(self._shapes[name] if name else self._shapes))
                pair = (here[name], there[name]) if name else (here, there)
                search.see(*(one.reshape(shape) for one in pair))

    def _look(self) -> None:
        found = {name: search.stack for name, search in self._searches.items()}
        if UNKNOWN in found.values():
            return
        stack = max(found.values(), default=1)
        if stack == 1:
            self._stop_looking("each observation is stored once")
        else:
            self._store_frames(found if self._is_dict else stack)
            text = f"each frame is stored once, stacks of {stack} are made when drawn"
            if self.compression:
                text += f" and compressed with {self.compression}"
            self._stop_looking(text)

    def _store_frames(self, stacks: int | dict[str, int]) -> None:
        """Begin anew with single frames, and the steps so far; nothing changes if that fails."""
        before, self._frame_stack = self._frame_stack, stacks
        try:
            # room for episodes of one step: what is not touched takes no memory
            core = ReplayBuffer(
                self._schema(), self.core.capacity, n_envs=self.n_envs, seed=self._seed,
                compress=self.core.compress, episode_length=1,
            )  # fmt: skip
            for step in self._first_steps:
                self._put(core, *step)
        except Exception:
            self._frame_stack = before
            raise
        self._adopt(core)

    def _stop_looking(self, text: str) -> None:
        self._searches, self._first_steps = {}, []
        rows, schema = self.buffer_size * self.n_envs, self.core.schema
        copies = 1 if self._draws_optimized else 2
        each = _observation_bytes(self.observation_space) * copies + _THEIR_STEP_BYTES
        usual = rows * (each + schema.action.bytes)
        own = rows * (schema.row_bytes + schema.step_bytes)
        at_most = "at most" if schema.stack > 1 and self.compression else "about"
        self.report.applied(
            f"{text}: {at_most} {format_bytes(own)} instead of {format_bytes(usual)} for "
            f"{rows:,} transitions",
            max(0, usual - own),
        )

    # ---- as numpy casts ------------------------------------------------------------------------

    def _shaped(self, name: str, array: Any, shape: tuple[int, ...]) -> Array:
        """stable-baselines3 assigns to its arrays, which rounds and wraps what is no such number"""
        dtype = self.core.store.rows[name or "obs"].dtype
        return super()._shaped(name, np.asarray(array).astype(dtype, copy=False), shape)

    def _put(
        self, core: ReplayBuffer, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any,
        infos: list[dict[str, Any]],
    ) -> None:  # fmt: skip
        action = np.asarray(action).astype(core.store.actions.dtype, copy=False)
        super()._put(core, obs, next_obs, action, reward, done, infos)

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


class AppliedDictReplayBuffer(AppliedReplayBuffer, buffers.DictReplayBuffer):  # type: ignore[override]
    """For Dict observations."""


class AppliedHerReplayBuffer(HerReplayBuffer, AppliedDictReplayBuffer):  # type: ignore[override]
    """Goals are relabeled by the code of stable-baselines3, which reads our `observations`."""

    _kept_arrays = ("infos", "ep_start", "ep_length", "_current_ep_start")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not vars(self):
            super().__init__(*args, **kwargs)

    def _new_searches(self) -> dict[str, StackSearch]:
        # its code draws by place, and single frames may not have room for each of them
        return {}

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"env": None}  # as theirs: environments are not saved

    __getstate__ = AppliedDictReplayBuffer.__getstate__
    __setstate__ = AppliedDictReplayBuffer.__setstate__


class AppliedNStepReplayBuffer(AppliedReplayBuffer, _NStepReplayBuffer):  # type: ignore[misc]
    """For n-step returns."""

    def __init__(self, *args: Any, n_steps: int = 3, **kwargs: Any) -> None:
        super().__init__(*args, n_steps=n_steps, **kwargs)


_APPLIED: dict[str, type[AppliedReplayBuffer]] = {
    "ReplayBuffer": AppliedReplayBuffer,
    "DictReplayBuffer": AppliedDictReplayBuffer,
    "NStepReplayBuffer": AppliedNStepReplayBuffer,
    "HerReplayBuffer": AppliedHerReplayBuffer,
}


def applied_class(name: str, compress: str, report: Report) -> type:
    """The class that stands for one of stable-baselines3's, which it is a subclass of."""
    AppliedReplayBuffer.report, AppliedReplayBuffer.compression = report, compress
    return _APPLIED[name]


def _observation_bytes(space: Any) -> int:
    parts = space.spaces.values() if hasattr(space, "spaces") else (space,)
    return sum(prod(part.shape or (1,)) * np.dtype(part.dtype).itemsize for part in parts)


def _copied(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: np.array(one) for name, one in observation.items()}
    return np.array(observation)
