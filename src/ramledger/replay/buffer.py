"""`ReplayBuffer`: transitions in, batches out, never more than its capacity or budget.

Thread-safe for one writer and many readers. What is stored is in `store`, how it is drawn in
`sampling`, how it is saved in `checkpoint`.
"""

import dataclasses
import math
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay import sampling
from ramledger.replay.batch import Batch, Sequences
from ramledger.replay.checkpoints import restoring
from ramledger.replay.checkpoints.manifest import Line
from ramledger.replay.checkpoints.random_state import restored_rng, rng_state
from ramledger.replay.checkpoints.restoring import Restored
from ramledger.replay.checkpoints.saved_buffers import fingerprint_of
from ramledger.replay.checkpoints.saving import Progress, Saved, SavedAs, SaveJob
from ramledger.replay.hindsight import Hindsight
from ramledger.replay.sampling import Scaled
from ramledger.replay.schema import Schema
from ramledger.replay.storage import quick_add
from ramledger.replay.storage.backing import Array, Backing, Memory
from ramledger.replay.storage.casting import checked_steps
from ramledger.replay.storage.layout import Layout, layout_of
from ramledger.replay.storage.store import TERMINATED, TRUNCATED, Store
from ramledger.replay.storage.sum_tree import Prioritized, SumTree
from ramledger.replay.storage.table import Table

_NAN_POLICIES = ("allow", "raise")
_BOOL = np.dtype(bool)
_SCALARS = frozenset({float, int, np.float32, np.float64})


class ReplayBuffer:
    """Experience bounded in transitions or bytes.

    Observations are stored once: the next observation is the following row, stacks are rebuilt
    from single frames, windows over a table are positions. What is not proven or compared to be
    the same bytes is stored in full, so batches are bit-identical to what was added.
    """

    def __init__(
        self,
        schema: Schema | Mapping[str, Any],
        capacity: int | None = None,
        *,
        budget: str | int | None = None,
        n_envs: int = 1,
        seed: int | None = None,
        episode_length: float | None = None,
        tables: Mapping[str, Any] | None = None,
        prioritized: Prioritized | None = None,
        compress: str = "",
        nan: str = "allow",
        backing: Backing | None = None,
        layout: Layout | Mapping[str, Any] | None = None,
    ) -> None:
        self.schema = schema if isinstance(schema, Schema) else Schema.from_dict(schema)
        if layout is None:
            leaf_bytes = SumTree.BYTES_A_LEAF if prioritized else 0
            layout = layout_of(self.schema, capacity, budget, n_envs, episode_length, leaf_bytes)
        self.layout = layout if isinstance(layout, Layout) else Layout(**layout)
        self.layout.check(self.schema)
        if nan not in _NAN_POLICIES:
            raise ConfigError(f"nan must be 'allow' or 'raise', got {nan!r}")
        self.n_envs = n_envs
        self.capacity = self.layout.transitions
        self.size = 0
        self.total_added = 0  # since the buffer was made, over all environments
        self.rng = np.random.default_rng(seed)
        self.buffer_id = uuid.uuid4().hex
        self.saved_as: SavedAs | None = None  # the last save and its folder
        self.line: tuple[Line, ...] = ()  # saves that this buffer continues from
        self.restored: Restored | None = None  # where it was loaded from, if it was
        self.prioritized = prioritized
        self.tables = {name: Table(name, rows) for name, rows in (tables or {}).items()}
        self._refuse_nan = nan == "raise"
        self._lock = threading.Lock()
        self.compress = compress
        backing = backing or Memory()
        self.store = Store(self.schema, self.layout, backing, self.tables, compress)
        self.tree = SumTree(self.capacity, prioritized, backing) if prioritized else None
        self._forgotten = self.store.arena.forgotten
        self._is_quick = self.store.is_quick and self.tree is None and nan == "allow"
        self._is_quick &= self.schema.reward.shape == () and self.store.rewards.dtype.kind == "f"
        first, action = self.store.quick_rows, self.store.actions
        stack = (self.store.stack,) if self.store.stack > 1 else ()
        self._is_flat = not stack
        self._obs_shape, self._obs_dtype = (*stack, *first.shape[1:]), first.dtype
        self._action_shape, self._action_dtype = action.shape[1:], action.dtype
        self._show_fields()

    def _show_fields(self) -> None:
        """Arrays as attributes: the ledger books each field of a buffer to `replay/<field>`."""
        for name, array in (*self.store.rows.items(), *self.store.steps.items()):
            if hasattr(self, name):
                raise ConfigError(
                    f"a field cannot be called {name!r}: the buffer has an attribute of that name",
                    hint="choose another name",
                )
            self.__dict__[name] = array

    # ---- adding --------------------------------------------------------------------------------

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: bool,
        truncated: bool = False,
        *,
        env: int = 0,
        **extra: Any,
    ) -> int:
        """Store one transition; `next_obs` is the true one, also where an episode ends."""
        flags = TERMINATED if terminated else 0
        if truncated:
            flags |= TRUNCATED
        try:  # the short way, for arrays that are what the schema says
            is_quick = (
                self._is_quick
                and obs.shape == self._obs_shape == next_obs.shape
                and obs.dtype is self._obs_dtype is next_obs.dtype
                and action.shape == self._action_shape
                and action.dtype is self._action_dtype
                and type(reward) in _SCALARS
            )
        except AttributeError:
            is_quick = False
        if extra or not is_quick:
            steps = {"action": action, "reward": reward, **extra}
            return self._add(obs, next_obs, steps, env, flags)
        if env:
            self._check_env(env)
        with self._lock:
            index = quick_add.add(self.store, env, obs, action, reward, next_obs, flags)
            self.total_added += 1
            if self.size < self.capacity or self._forgotten:
                self._count(0)
        return index

    def _add(self, obs: Any, next_obs: Any, steps: dict[str, Any], env: int, flags: int) -> int:
        values, following = self._values(obs, None), self._values(next_obs, None)
        checked = checked_steps(self.store.steps, steps, None)
        if self._refuse_nan:
            _check_no_nan(values, following, checked)
        self._check_env(env)
        with self._lock:
            index = self.store.add(env, values, following, checked, flags)
            if self.tree is not None:
                self.tree.set_new(self.store, index)
            self._count(1)
        return index

    def add_step(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        *,
        final_obs: Mapping[int, Any] | None = None,
        **extra: Any,
    ) -> None:
        """Store one step of every environment.

        Where environments reset themselves, `next_obs` of a finished one is the first of its next
        episode: give the true one in `final_obs`, by the number of the environment.
        """
        count = self.n_envs
        values, following = self._values(obs, count), self._values(next_obs, count)
        if final_obs:
            following = [np.array(value) for value in following]
            for env, final in final_obs.items():
                for target, value in zip(following, self._values(final, None), strict=True):
                    target[env] = value
        steps = checked_steps(
            self.store.steps, {"action": action, "reward": reward, **extra}, count
        )
        flags = _flags(terminated, truncated, count)
        if self._refuse_nan:
            _check_no_nan(values, following, steps)
        with self._lock:
            self.store.add_step(values, following, steps, flags)
            if self.tree is not None:
                self.tree.set_new_steps(self.store, 1)
            self._count(count)

    def extend(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any = None,
        *,
        env: int = 0,
        **extra: Any,
    ) -> None:
        """Store consecutive transitions of one environment, given with one more axis in front."""
        count = len(terminated)
        values, following = self._values(obs, count), self._values(next_obs, count)
        steps = checked_steps(
            self.store.steps, {"action": action, "reward": reward, **extra}, count
        )
        flags = _flags(terminated, truncated, count)
        if self._refuse_nan:
            _check_no_nan(values, following, steps)
        self._check_env(env)
        with self._lock:
            if self._is_quick and self._is_flat:
                acts, gains = steps
                quick_add.extend(self.store, env, values[0], acts, gains, following[0], flags)
            else:
                self.store.extend(env, values, following, steps, flags)
            if self.tree is not None:
                self.tree.set_new_steps(self.store, count, env)
            self._count(count)

    def _count(self, count: int) -> None:
        self.total_added += count
        self.size = self.store.size
        self._forgotten.clear()

    def _values(self, observation: Any, count: int | None) -> list[Array]:
        columns = self.store.columns
        if not self.schema.is_dict:
            return [columns[0].checked(observation, count)]
        try:
            return [column.checked(observation[column.name], count) for column in columns]
        except (KeyError, TypeError, IndexError):
            raise ConfigError(
                "the observation must have all fields of the schema",
                hint=f"give a mapping with {', '.join(self.schema.rows)}",
            ) from None

    def _check_env(self, env: int) -> None:
        if not 0 <= env < self.n_envs:
            raise ConfigError(f"env must be between 0 and {self.n_envs - 1}, got {env}")

    # ---- sampling ------------------------------------------------------------------------------

    def sample(
        self,
        count: int,
        *,
        n_step: int = 1,
        gamma: float = 0.99,
        hindsight: Hindsight | None = None,
        out: Batch | None = None,
    ) -> Batch:
        """Draw transitions with replacement: uniformly, or by priority if the buffer has them.

        `out` is an earlier batch of the same size whose arrays are filled again.
        """
        sampling.check_count(count, self.size)
        with self._lock:
            weight = None
            if self.tree is not None:
                index, weight = self.tree.sample(self.rng, count, self.size)
            else:
                index = sampling.uniform(self.store, self.rng, count)
            batch = sampling.gather(self.store, index, n_step, gamma, out)
            batch.weight = weight
            if hindsight is not None:
                hindsight.relabel(self.store, self.rng, batch)
        return batch

    def get(
        self, index: Any, *, n_step: int = 1, gamma: float = 0.99, scaled: Scaled | None = None
    ) -> Batch:
        """The transitions at these places, as `Batch.index` names them.

        `scaled` is given rewards before those of several steps are summed.
        """
        index = np.asarray(index, np.int64)
        with self._lock:
            return sampling.gather(self.store, index, n_step, gamma, None, scaled)

    def sample_sequences(self, count: int, length: int) -> Sequences:
        """Draw stretches of `length` consecutive steps; one that its episode ends is masked."""
        sampling.check_count(count, self.size)
        with self._lock:
            index = sampling.uniform(self.store, self.rng, count)
            return sampling.gather_sequences(self.store, index, length)

    def ordered(self) -> Array:
        """Places of all stored transitions, environment by environment, oldest first."""
        with self._lock:
            return sampling.ordered(self.store)

    def update_priorities(self, index: Any, priority: Any) -> None:
        """Set new priorities, such as the absolute TD errors of a batch.

        Those of transitions that were replaced for want of rows since are ignored.
        """
        if self.tree is None:
            raise ConfigError(
                "this buffer has no priorities", hint="create it with prioritized=Prioritized()"
            )
        with self._lock:
            priorities = np.asarray(priority, np.float64)
            self.tree.update(self.store, np.asarray(index, np.int64), priorities)

    # ---- size ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.size

    @property
    def least_capacity(self) -> int:
        """How many of the latest transitions are kept, even if they share no frames."""
        return self.layout.least_transitions(self.schema.stack)

    @property
    def reserved_bytes(self) -> int:
        """The most bytes that the buffer can take."""
        return self.layout.reserved_bytes

    @property
    def used_bytes(self) -> int:
        """Bytes touched so far: rows and transitions that are or were in use."""
        store = self.store
        rows = store.arena.first_row + store.arena.high_chunk * store.arena.chunk_rows
        steps = max(min(stream.added, store.slots) for stream in store.streams) * self.n_envs
        leaf = SumTree.BYTES_A_LEAF if self.tree is not None else 0
        packed = sum(
            cold.compressed_bytes - cold.cold_rows * (cold.rows.nbytes // len(cold.rows))
            for cold in store.cold
        )
        return rows * self.schema.row_bytes + packed + steps * (self.schema.step_bytes + leaf)

    @property
    def fingerprint(self) -> str:
        """Names what was added and drawn so far; the save of this moment has the same."""
        return fingerprint_of(self.total_added, self.rng.bit_generator.state)

    @property
    def bytes_per_transition(self) -> float:
        """Mean bytes per stored transition; `nan` while the buffer is empty."""
        return self.used_bytes / self.size if self.size else math.nan

    # ---- checkpoints ---------------------------------------------------------------------------

    def locked(self) -> threading.Lock:
        """A context manager: nothing is added or sampled inside."""
        return self._lock

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int = 2,
        compress: str = "",
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Saved:
        """Write what changed since the last save to that folder, durably, whole or not at all."""
        return SaveJob(
            self, folder, keep=keep, compress=compress, overwrite=overwrite, progress=progress
        ).run()

    def save_in_background(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int = 2,
        compress: str = "",
        overwrite: bool = False,
        progress: Progress | None = None,
        before: Callable[[], object] | None = None,
    ) -> SaveJob:
        """Save the current state while training continues; `wait` for the result.

        `before` is called first, in the same thread, for what must be durable before this save.
        """
        return SaveJob(
            self, folder, keep=keep, compress=compress, overwrite=overwrite, progress=progress,
            before=before,
        ).start()  # fmt: skip

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        number: int | None = None,
        schema: Schema | None = None,
        tables: Mapping[str, Any] | None = None,
        lazy: bool = False,
        progress: Progress | None = None,
        backing: Backing | None = None,
    ) -> Self:
        """The buffer as it was saved: the next batch is the one the saved buffer would draw.

        A damaged save is passed over for the one before; `restored` says what was lost.
        With `number` it is that save or none. With `lazy`, rows are read and verified when they
        are first sampled.
        """
        return restoring.load(
            cls, folder, number=number, schema=schema, tables=tables, lazy=lazy, progress=progress,
            backing=backing,
        )  # fmt: skip

    def settings(self) -> dict[str, Any]:
        """Arguments that make an empty buffer like this one, as plain data."""
        return {
            "n_envs": self.n_envs,
            "layout": {name: getattr(self.layout, name) for name in self.layout.__slots__},
            "compress": self.compress,
            "prioritized": dataclasses.asdict(self.prioritized) if self.prioritized else None,
        }

    def state(self) -> dict[str, Any]:
        """Everything besides the arrays, as plain data; called with the lock held."""
        return {
            "arena": self.store.arena.to_dict(),
            "total_added": self.total_added,
            "rng": rng_state(self.rng),
            "largest_priority": self.tree.largest if self.tree is not None else None,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self.store.arena.restore(state["arena"])
        self.total_added = state["total_added"]
        self.size = self.store.size
        self.rng = restored_rng(state["rng"])
        if self.tree is not None:
            self.tree.largest = state["largest_priority"]


def _flags(terminated: Any, truncated: Any, count: int) -> Array:
    flags = _bits(terminated, count)  # TERMINATED is the lowest bit
    if truncated is None:
        return flags.copy()
    other = _bits(truncated, count)
    both: Array = flags | (other + other)  # a shift takes numpy longer
    return both


def _bits(given: Any, count: int) -> Array:
    found = given if type(given) is np.ndarray else np.asarray(given)
    if found.shape != (count,):
        raise ConfigError(
            f"flags have shape {found.shape}, but there are {count} transitions",
            hint="give one flag per transition",
        )
    return (found if found.dtype is _BOOL else found.astype(bool)).view(np.uint8)


def _check_no_nan(*groups: Any) -> None:
    for value in (np.asarray(value) for group in groups for value in group):
        if value.dtype.kind in "fc" and np.isnan(value).any():
            raise ConfigError(
                "a value is NaN",
                hint="find its origin, or allow it with nan='allow'",
            )
