"""What a buffer holds, indexed as stable-baselines3 indexes its arrays: [step, environment, …].

Nothing is kept here: a read gathers from the buffer. A place without a transition reads as zeros.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.columns import PlainColumn
from ramledger.replay.storage.store import TERMINATED, TRUNCATED

_ENDS = TERMINATED | TRUNCATED
_ARRAYS = (list, np.ndarray)

Read = Callable[[Array], Array]
Write = Callable[[Array, Array], None]


class StoredArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Read as an array of `shape` is; whatever an array can do, a copy of all of it does."""

    def __init__(
        self, core: ReplayBuffer, item: tuple[int, ...], dtype: Any, read: Read,
        write: Write | None = None,
    ) -> None:  # fmt: skip
        self.shape = (core.capacity // core.n_envs, core.n_envs, *item)
        self.dtype, self.ndim = np.dtype(dtype), len(self.shape)
        self._core, self._read, self._write = core, read, write

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        front, rest = keys[:2], keys[2:]
        if _is_general(front, rest):
            return np.asarray(self)[key]
        places = self._places(front)
        found = self._at(places.reshape(-1)).reshape((*places.shape, *self.shape[2:]))
        return found[(slice(None),) * places.ndim + rest]

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._write is None:
            raise TypeError("observations are stored once: they cannot be set")
        places = self._places(key if isinstance(key, tuple) else (key,))
        with self._core.locked():
            self._write(places.reshape(-1), np.broadcast_to(value, places.shape).reshape(-1))

    def _places(self, front: tuple[Any, ...]) -> Array:
        steps, envs = self.shape[:2]
        if len(front) == 2 and all(isinstance(one, np.ndarray) for one in front):
            try:  # what sampling does, without an array of all places
                return np.asarray(np.ravel_multi_index(front, (steps, envs)))
            except (ValueError, TypeError):  # counted from the end, or masks
                pass
        return np.asarray(np.arange(steps * envs).reshape(steps, envs)[front])

    def _at(self, places: Array) -> Array:
        with self._core.locked():
            is_stored = self._core.store.is_stored(places)
            if is_stored.all():
                return self._read(places)
            found = np.zeros((len(places), *self.shape[2:]), self.dtype)
            if is_stored.any():
                found[is_stored] = self._read(places[is_stored])
        return found

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self[:].astype(dtype or self.dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        given = [np.asarray(one) if isinstance(one, StoredArray) else one for one in inputs]
        return getattr(ufunc, method)(*given, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def _is_general(front: tuple[Any, ...], rest: tuple[Any, ...]) -> bool:
    """Whether a key needs numpy's own rules for all axes at once."""
    if any(one is None or one is Ellipsis for one in (*front, *rest)):
        return True
    arrays = [np.asarray(one) for one in front if isinstance(one, _ARRAYS)]
    if any(one.dtype == bool and one.ndim > 1 for one in arrays):  # a mask of several axes
        return True
    return bool(arrays) and any(isinstance(one, _ARRAYS) for one in rest)


def observations(
    core: ReplayBuffer, name: str, item: tuple[int, ...], *, is_next: bool
) -> StoredArray:
    """The observations of a field, or those that follow."""
    column = next(one for one in core.store.columns if one.name == name)

    def read(places: Array) -> Array:
        picks = core.store.picks(places, core.store.flags.take(places))
        if isinstance(column, PlainColumn):
            return column.rows.take(picks.following if is_next else picks.starts, 0)
        return column.gather(picks, None)[is_next].reshape(len(places), *item)

    return StoredArray(core, item, column.rows.dtype, read)


def dones(core: ReplayBuffer) -> StoredArray:
    """1 where an episode has ended, for whatever reason; can be set."""

    def write(places: Array, values: Array) -> None:
        flags = core.store.flags
        before = flags[places]
        ended = np.where(before & _ENDS, before, before | TERMINATED)
        flags[places] = np.where(values.astype(bool), ended, before & ~np.uint8(_ENDS))
        _has_changed(core, places)

    return StoredArray(core, (), np.float32, _flag_reader(core, _ENDS), write)


def timeouts(core: ReplayBuffer) -> StoredArray:
    """1 where it has ended by time; can be set where it has ended."""

    def write(places: Array, values: Array) -> None:
        flags = core.store.flags
        before = flags[places]
        ended = np.where(values.astype(bool), TRUNCATED, TERMINATED).astype(np.uint8)
        flags[places] = np.where(before & _ENDS, before & ~np.uint8(_ENDS) | ended, before)
        _has_changed(core, places)

    return StoredArray(core, (), np.float32, _flag_reader(core, TRUNCATED), write)


def _flag_reader(core: ReplayBuffer, flag: int) -> Read:
    return lambda places: (core.store.flags.take(places) & flag != 0).astype(np.float32)


def _has_changed(core: ReplayBuffer, places: Array) -> None:
    """Streams whose newest transition has ended begin anew; the next save writes everything."""
    store = core.store
    for env, stream in enumerate(store.streams):
        newest = (stream.added - 1) % store.slots * store.n_envs + env
        if newest in places and store.flags[newest] & _ENDS:
            stream.is_open, stream.quick_end = False, 0
    core.saved_as = None
