"""A buffer for several processes: arrays in shared memory, one writer, many readers.

The writer makes a `SharedReplayBuffer` and hands `handle()` to processes that it starts; each opens
it with `SharedReader`. A lock that works between processes keeps batches whole.
"""

import hashlib
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay.batch import Batch, Sequences
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.schema import Schema
from ramledger.replay.storage.backing import Array, Folder
from ramledger.replay.storage.sum_tree import TREE_NAME, Prioritized

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Handle:
    """What a reader needs; it can be passed to a process when that is started."""

    folder: str
    schema: dict[str, Any]
    settings: dict[str, Any]
    tables: dict[str, tuple[tuple[int, ...], str]]
    lock: Any


class SharedReplayBuffer(ReplayBuffer):
    """A `ReplayBuffer` that other processes sample from. `close` removes the shared memory.

    Tables are copied there once: give positions, or views of `buffer.tables[name].rows`.
    """

    def __init__(self, schema: Any, capacity: int | None = None, **arguments: Any) -> None:
        if arguments.get("compress") or arguments.pop("backing", None) is not None:
            raise ConfigError(
                "a shared buffer cannot have compression or another backing than shared memory",
                hint="use a ReplayBuffer in one process for these",
            )
        folder = _folder_in_memory()
        try:
            given: Mapping[str, Any] = arguments.pop("tables", None) or {}
            tables = {name: _shared(folder, name, np.asarray(t)) for name, t in given.items()}
            super().__init__(schema, capacity, backing=folder, tables=tables, **arguments)
            shape = (self.n_envs, 2)
            self._counters = folder.allocate("counters", shape, "int64")
        except BaseException:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        self._folder = folder
        self._lock = multiprocessing.get_context("spawn").RLock()  # type: ignore[assignment]
        self._is_quick = False  # every add is published below

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, lazy: bool = False, **arguments: Any) -> Self:
        """As `ReplayBuffer.load`, but never lazily: other processes see what is in memory."""
        if lazy:
            raise ConfigError("a shared buffer cannot be loaded lazily", hint="leave out lazy=True")
        return super().load(folder, **arguments)

    def restore_state(self, state: Mapping[str, Any]) -> None:
        super().restore_state(state)
        self._publish()

    def _count(self, count: int) -> None:
        super()._count(count)
        self._publish()

    def _publish(self) -> None:
        for number, stream in enumerate(self.store.streams):
            self._counters[number] = stream.added, stream.oldest

    def handle(self) -> Handle:
        """For `SharedReader` in another process."""
        tables = {
            name: (table.rows.shape, table.rows.dtype.name) for name, table in self.tables.items()
        }
        return Handle(
            str(self._folder.path), self.schema.to_dict(), self.settings(), tables, self._lock
        )

    def close(self) -> None:
        """Remove the shared memory; processes that have it open keep it until they end."""
        shutil.rmtree(self._folder.path, ignore_errors=True)


def _folder_in_memory() -> Folder:
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    try:
        return Folder(tempfile.mkdtemp(prefix="ramledger-", dir=place))
    except OSError as error:
        raise ConfigError(
            f"no shared memory in {place or tempfile.gettempdir()}: {error.strerror}",
            hint="make that folder writable, or use a ReplayBuffer in one process",
        ) from None


def _shared(folder: Folder, name: str, rows: Array) -> Array:
    target = folder.allocate(_table_file(name), rows.shape, rows.dtype.name)
    target[...] = rows
    return target


def _table_file(name: str) -> str:
    return f"table-{hashlib.sha256(name.encode()).hexdigest()[:16]}"  # names may hold anything


class _Opened:
    """Arrays that another process made, read-only but for priorities, which readers set."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def allocate(
        self, name: str, shape: tuple[int, ...], dtype: str, sure: int | None = None
    ) -> Array:
        target = self.folder / f"{name}.rows"
        try:
            mode: Any = "r+" if name == TREE_NAME else "r"
            return np.memmap(target, dtype, mode, shape=shape).view(np.ndarray)
        except OSError as error:
            raise ConfigError(
                f"cannot open {target}: {error.strerror}",
                hint="the process that made the buffer has ended or closed it",
            ) from None


class SharedReader:
    """Samples from a buffer that another process fills."""

    def __init__(self, handle: Handle, seed: int | None = None) -> None:
        settings = {name: handle.settings[name] for name in ("n_envs", "layout")}
        opened = _Opened(handle.folder)
        schema, given = Schema.from_dict(handle.schema), handle.settings["prioritized"]
        tables = {
            name: opened.allocate(_table_file(name), *kind) for name, kind in handle.tables.items()
        }
        self._buffer = ReplayBuffer(
            schema, seed=seed, backing=opened, tables=tables,
            prioritized=Prioritized(**given) if given else None, **settings,
        )  # fmt: skip
        self._counters = opened.allocate("counters", (self._buffer.n_envs, 2), "int64")
        self._lock = handle.lock

    def __len__(self) -> int:
        with self._lock:
            self._refresh()
            return len(self._buffer)

    def sample(self, count: int, **arguments: Any) -> Batch:
        """As `ReplayBuffer.sample`."""
        with self._lock:
            self._refresh()
            return self._buffer.sample(count, **arguments)

    def sample_sequences(self, count: int, length: int) -> Sequences:
        """As `ReplayBuffer.sample_sequences`."""
        with self._lock:
            self._refresh()
            return self._buffer.sample_sequences(count, length)

    def update_priorities(self, index: Any, priority: Any) -> None:
        """As `ReplayBuffer.update_priorities`: the writer and other readers see them, too."""
        with self._lock:
            self._refresh()
            self._buffer.update_priorities(index, priority)

    def _refresh(self) -> None:
        for stream, (added, oldest) in zip(
            self._buffer.store.streams, self._counters.tolist(), strict=True
        ):
            stream.added, stream.oldest = added, oldest
        self._buffer.size = self._buffer.store.size
