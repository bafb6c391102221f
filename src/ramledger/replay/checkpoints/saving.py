"""Saves a buffer: only what changed, while training continues, whole or not at all."""

import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ramledger.durable_files import new_token, sync_folder
from ramledger.errors import CheckpointError
from ramledger.replay.checkpoints import saves
from ramledger.replay.checkpoints.background_job import Job
from ramledger.replay.checkpoints.manifest import Block, Line, Manifest, comes_from, within, without
from ramledger.replay.checkpoints.point_in_time import Pending, PointInTime, take_point_in_time
from ramledger.replay.checkpoints.segment import SegmentWriter

if TYPE_CHECKING:
    from ramledger.replay.buffer import ReplayBuffer

LOCK_NAME = "writer.lock"
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# a save rewrites everything once its blocks are so many more than needed
MAX_SPARE_BLOCKS = 4096

Progress = Callable[[int, int], None]  # bytes read so far, bytes in all


@dataclass(frozen=True, slots=True)
class Saved:
    """What a save did."""

    folder: str
    number: int
    written_bytes: int  # to the disk, compressed if so wanted
    checkpoint_bytes: int  # of all blocks that the save consists of
    seconds: float
    is_full: bool


@dataclass(frozen=True, slots=True)
class SavedAs:
    """A buffer's last save: where it is, and the process that may continue its lineage."""

    folder: str
    manifest: Manifest
    head: bytes  # its first line there, which has its checksum
    pid: int = 0  # of the process that saved it; one that was loaded begins a lineage of its own


class SaveJob(Job[Saved]):
    """A save in progress. Training may continue: rows are kept until they are written."""

    _thread_name = "ramledger-save"

    def __init__(
        self,
        buffer: "ReplayBuffer",
        folder: str | os.PathLike[str],
        *,
        keep: int = 2,
        compress: str = "",
        overwrite: bool = False,
        progress: Progress | None = None,
        before: Callable[[], object] | None = None,
    ) -> None:
        super().__init__()
        if keep < 1:
            raise CheckpointError(f"keep must be at least 1, got {keep}")
        self.folder = Path(folder)
        self.total_bytes = self.done_bytes = 0
        self._buffer, self._keep, self._compress = buffer, keep, compress
        self._overwrite, self._progress, self._before = overwrite, progress, before
        self._there: list[Manifest] | None = None
        self._newer: list[str] = []
        self._lock_fd = _locked_folder(self.folder)
        try:
            self._begin()
        except BaseException:
            os.close(self._lock_fd)
            raise

    def _begin(self) -> None:
        buffer = self._buffer
        self._started = time.monotonic()
        base = self._base()
        self._lineage, self._history = self._line()
        self._writer = SegmentWriter(
            self.folder, self._number, buffer.buffer_id, self._lineage, self._compress
        )
        self._base_manifest = base
        with buffer.locked():
            if buffer.store.guard is not None:
                raise CheckpointError(
                    "a save of this buffer is in progress", hint="wait for it: job.wait()"
                )
            self._snapshot: PointInTime = take_point_in_time(buffer, everything=base is None)
            self._pending = Pending(self._snapshot.pieces)
            buffer.store.guard = self._pending
        self._is_full = base is None
        self.total_bytes = self._snapshot.size_bytes

    def _base(self) -> Manifest | None:
        """The save that this one builds on; None for a full one."""
        numbers = saves.numbers_in(self.folder)
        self._number = numbers[0] + 1 if numbers else 1
        if self._number > saves.LAST_NUMBER:
            raise CheckpointError(
                f"{self.folder} has reached the largest save number", hint="choose another folder"
            )
        saved = self._buffer.saved_as
        if saved is None or saved.folder != str(self.folder.resolve()):
            self._check_owner(bool(numbers))
            return None
        base = saved.manifest
        if numbers and numbers[0] == base.number:
            head = saves.head_of(self.folder, base.number)
            if head == saved.head:
                return None if _is_scattered(base) else base
        if self._overwrite or not numbers or numbers[0] < base.number:
            return None
        newest = self._read()[0] if self._read() else None
        if newest is not None and not comes_from(self._buffer.line, newest):
            raise CheckpointError(
                f"another process has saved to {self.folder} meanwhile",
                hint="use one folder per buffer: choose another one, or pass overwrite=True",
            )
        return None  # later ones are damaged, and nothing is built on them

    def _read(self) -> list[Manifest]:
        """Saves that are in the folder, newest first."""
        if self._there is None:
            self._there, self._newer = saves.read_all(self.folder)
            if self._newer and not self._overwrite:
                raise CheckpointError(
                    self._newer[0], hint="choose another folder, or pass overwrite=True"
                )
        return self._there

    def _check_owner(self, has_saves: bool) -> None:
        """What is in the folder is what this buffer continues from, or nothing, or given up."""
        if not has_saves or self._overwrite:
            return
        buffer, restored = self._buffer, self._buffer.restored
        newest = self._read()[0] if self._read() else None
        if newest is not None:
            if comes_from(buffer.line, newest):
                return
            # a run that continues from an earlier save may pass over what was there when it began
            is_known = restored is not None and restored.newest == newest.line[-1]
            if is_known and newest.buffer_id == buffer.buffer_id:
                return
        raise CheckpointError(
            f"{self.folder} holds the checkpoint of another buffer",
            hint="load it, choose another folder, or pass overwrite=True",
        )

    def _line(self) -> tuple[str, tuple[Line, ...]]:
        """Lineage and history: a lineage belongs to one process and one folder, without gaps."""
        saved = self._buffer.saved_as
        if saved is not None and saved.pid == os.getpid():
            base = saved.manifest
            if saved.folder == str(self.folder.resolve()) and self._number == base.number + 1:
                return base.lineage, base.history
        return new_token(), self._buffer.line

    # ---- running -------------------------------------------------------------------------------

    def run(self) -> Saved:
        """Save here and now."""
        try:
            if self._before is not None:
                self._before()
            self._result = self._write()
            return self._result
        except OSError as error:
            raise CheckpointError(
                f"cannot write to {self.folder}: {error.strerror}",
                hint="free disk space or choose another folder; earlier saves are intact",
            ) from None
        finally:
            self._end()

    def _write(self) -> Saved:
        blocks = list(self._base_manifest.blocks) if self._base_manifest else []
        written: list[Block] = []
        try:
            known = self._read()
            if not self._newer:  # whose saves may need anything
                saves.remove_leftovers(self.folder, self._buffer.buffer_id, known)
            for piece in self._snapshot.pieces:
                self._stop_if_cancelled()
                columns = self._snapshot.columns[piece.group]
                complete = self._writer.write(piece.group, piece.begin, piece.end, columns)
                written += self._noted(complete)
            written += self._noted(self._writer.close())
            self._stop_if_cancelled()
            sync_folder(self.folder)
        except BaseException:
            self._writer.abandon()
            raise
        for group, begin, end in _covered(written):
            blocks = without(blocks, group, begin, end)
        blocks = within(blocks, "rows", self._snapshot.live_rows)
        return self._commit([*blocks, *written])

    def _stop_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise CheckpointError("the save was cancelled", hint="earlier saves are intact")

    def _noted(self, complete: list[Block]) -> list[Block]:
        """Release the data of these blocks, and report progress."""
        for block in complete:
            self._pending.finished(block.group, block.begin)
            self.done_bytes += (block.end - block.begin) * self._snapshot.item_bytes(block.group)
            if self._progress is not None:
                self._progress(self.done_bytes, self.total_bytes)
        return complete

    def _commit(self, blocks: list[Block]) -> Saved:
        buffer, state = self._buffer, self._snapshot.state
        manifest = Manifest(
            self._number, buffer.buffer_id, time.time(), buffer.schema.to_dict(),
            buffer.settings(), {t.name: t.sha256 for t in buffer.tables.values()}, state,
            self._lineage, self._history, tuple(blocks),
        )  # fmt: skip
        # noted before it is written: a save that fails after this may exist nevertheless
        buffer.line = manifest.line
        size = saves.write_manifest(self.folder, manifest)
        head = saves.head_of(self.folder, self._number)
        buffer.saved_as = SavedAs(str(self.folder.resolve()), manifest, head, os.getpid())
        self._tidy(manifest)
        seconds = time.monotonic() - self._started
        return Saved(
            str(self.folder), self._number, self._writer.written_bytes + size,
            manifest.stored_bytes, seconds, self._is_full,
        )  # fmt: skip

    def _tidy(self, newest: Manifest) -> None:
        """Remove saves of this buffer beyond `keep`; all of others, if they are overwritten."""
        there = self._read()
        ours = [m for m in there if m.buffer_id == newest.buffer_id]
        others = [m for m in there if m.buffer_id != newest.buffer_id]
        kept, dropped = ours[: self._keep - 1], ours[self._keep - 1 :]
        if self._overwrite:
            dropped += others
        else:
            kept += others
        if not self._newer:
            saves.remove(self.folder, dropped, [newest, *kept])

    def _end(self) -> None:
        if self._result is None:
            # what was taken as saved is not: the next save writes everything
            self._buffer.saved_as = None
        self._buffer.store.guard = None
        self._pending.over()
        os.close(self._lock_fd)


def _locked_folder(folder: Path) -> int:
    """Create the folder and hold it against other writers, also of other processes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / LOCK_NAME, _LOCK_FLAGS, 0o644)
    except OSError as error:
        raise CheckpointError(
            f"cannot write to {folder}: {error.strerror}", hint="choose another folder"
        ) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise CheckpointError(
            f"another save to {folder} is in progress", hint="use one folder per buffer"
        ) from None
    return fd


def _is_scattered(base: Manifest) -> bool:
    return len(base.blocks) > MAX_SPARE_BLOCKS + base.stored_bytes // (1 << 18)


def _covered(written: list[Block]) -> list[tuple[str, int, int]]:
    """Spans that new blocks cover, with neighbors joined."""
    found: list[tuple[str, int, int]] = []
    for block in written:
        if found and found[-1][0] == block.group and found[-1][2] == block.begin:
            found[-1] = (block.group, found[-1][1], block.end)
        else:
            found.append((block.group, block.begin, block.end))
    return found
