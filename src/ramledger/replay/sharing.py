"""One buffer for several processes: its arrays in shared memory, one writer, many readers.

The writer makes a `SharedReplayBuffer` and hands `handle()` to processes that it starts; each opens
it with `SharedReader`. A lock that works between processes keeps batches whole.
"""

import multiprocessing
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay.backing import Array, Folder
from ramledger.replay.batch import Batch, Sequences
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.schema import Schema

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Handle:
    """What a reader needs; it can be passed to a process when that is started."""

    folder: str
    schema: dict[str, Any]
    settings: dict[str, Any]
    lock: Any


class SharedReplayBuffer(ReplayBuffer):
    """A `ReplayBuffer` that other processes sample from. `close` removes the shared memory."""

    def __init__(self, schema: Any, capacity: int | None = None, **arguments: Any) -> None:
        if arguments.get("prioritized") or arguments.get("compress") or arguments.get("tables"):
            raise ConfigError(
                "a shared buffer has no priorities, no compression and no tables",
                hint="use these in one process, or share plain rows and frames",
            )
        place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        folder = Folder(tempfile.mkdtemp(prefix="ramledger-", dir=place))
        try:
            super().__init__(schema, capacity, backing=folder, **arguments)
            shape = (self.n_envs, 2)
            self._counters = folder.allocate("counters", shape, "int64")
        except BaseException:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        self._folder = folder
        self._lock = multiprocessing.get_context("spawn").RLock()  # type: ignore[assignment]
        self._is_quick = False  # every add is published below

    def _count(self, count: int) -> None:
        super()._count(count)
        for number, stream in enumerate(self.store.streams):
            self._counters[number] = stream.added, stream.oldest

    def handle(self) -> Handle:
        """For `SharedReader` in another process."""
        return Handle(str(self._folder.path), self.schema.to_dict(), self.settings(), self._lock)

    def close(self) -> None:
        """Remove the shared memory; processes that have it open keep it until they end."""
        shutil.rmtree(self._folder.path, ignore_errors=True)


class _Opened:
    """Arrays that another process made, read-only."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def allocate(
        self, name: str, shape: tuple[int, ...], dtype: str, sure: int | None = None
    ) -> Array:
        target = self.folder / f"{name}.rows"
        try:
            return np.memmap(target, dtype, "r", shape=shape).view(np.ndarray)
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
        schema = Schema.from_dict(handle.schema)
        self._buffer = ReplayBuffer(schema, seed=seed, backing=opened, **settings)
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

    def _refresh(self) -> None:
        for stream, (added, oldest) in zip(
            self._buffer.store.streams, self._counters.tolist(), strict=True
        ):
            stream.added, stream.oldest = added, oldest
        self._buffer.size = self._buffer.store.size
