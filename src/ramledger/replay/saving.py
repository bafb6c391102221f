"""Saving a buffer: only what changed, streamed, beside the training, whole or not at all."""

import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ramledger.errors import CheckpointError
from ramledger.replay import manifest as manifests
from ramledger.replay.job import Job
from ramledger.replay.manifest import Block, Manifest
from ramledger.replay.segment import SegmentWriter
from ramledger.replay.snapshot import Pending, Snapshot, take_snapshot

if TYPE_CHECKING:
    from ramledger.replay.buffer import ReplayBuffer

LOCK_NAME = "writer.lock"
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


class SaveJob(Job[Saved]):
    """A save in progress. Training may go on: rows are kept until they are written."""

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
            raise CheckpointError(f"keep={keep}", hint="keep at least one save")
        self.folder = Path(folder)
        self.total_bytes = self.done_bytes = 0
        self._buffer, self._keep, self._compress = buffer, keep, compress
        self._overwrite, self._progress, self._before = overwrite, progress, before
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
        manifests.remove_leftovers(self.folder, self._number)
        self._writer = SegmentWriter(self.folder, self._number, self._compress)
        self._base_manifest = base
        with buffer.locked():
            if buffer.store.guard is not None:
                raise CheckpointError(
                    "a save of this buffer is in progress", hint="wait for it: job.wait()"
                )
            self._snapshot: Snapshot = take_snapshot(buffer, everything=base is None)
            self._pending = Pending(self._snapshot.pieces)
            buffer.store.guard = self._pending
        self._is_full = base is None
        self.total_bytes = self._snapshot.size_bytes

    def _base(self) -> Manifest | None:
        """The save that this one builds on; None for a full one."""
        numbers = manifests.numbers_in(self.folder)
        newest = numbers[0] if numbers else 0
        self._number = newest + 1
        saved = self._buffer.saved_as
        if saved is not None and saved[0] == str(self.folder.resolve()):
            base: Manifest = saved[1]
            if newest == base.number:
                return None if _is_scattered(base) else base
            if newest > base.number and not self._overwrite:
                raise CheckpointError(
                    f"somebody else has saved to {self.folder} since",
                    hint="one buffer a folder: choose another one, or pass overwrite=True",
                )
        elif newest and not self._overwrite and not self._is_ours():
            raise CheckpointError(
                f"{self.folder} holds the checkpoint of another buffer",
                hint="load it, choose another folder, or pass overwrite=True",
            )
        return None

    def _is_ours(self) -> bool:
        return manifests.newest_manifest(self.folder).buffer_id == self._buffer.buffer_id

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
                hint="the saves before it are untouched; make room or choose another folder",
            ) from None
        finally:
            self._end()

    def _write(self) -> Saved:
        blocks = list(self._base_manifest.blocks) if self._base_manifest else []
        written: list[Block] = []
        try:
            for piece in self._snapshot.pieces:
                self._stop_if_cancelled()
                columns = self._snapshot.columns[piece.group]
                complete = self._writer.write(piece.group, piece.begin, piece.end, columns)
                written += self._noted(complete)
            written += self._noted(self._writer.close())
            self._stop_if_cancelled()
            manifests.sync_folder(self.folder)
        except BaseException:
            self._writer.abandon()
            raise
        for group, begin, end in _covered(written):
            blocks = manifests.without(blocks, group, begin, end)
        blocks = manifests.within(blocks, "rows", self._snapshot.live_rows)
        return self._commit([*blocks, *written])

    def _stop_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise CheckpointError("the save was cancelled", hint="earlier ones are whole")

    def _noted(self, complete: list[Block]) -> list[Block]:
        """Let go of what these blocks were read from, and tell how far the save is."""
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
            tuple(blocks),
        )  # fmt: skip
        size = manifests.write_manifest(self.folder, manifest)
        buffer.saved_as = (str(self.folder.resolve()), manifest)
        self._tidy(manifest)
        seconds = time.monotonic() - self._started
        return Saved(
            str(self.folder), self._number, self._writer.written_bytes + size,
            manifest.stored_bytes, seconds, self._is_full,
        )  # fmt: skip

    def _tidy(self, newest: Manifest) -> None:
        kept, before = [newest], self._base_manifest
        for number in manifests.numbers_in(self.folder):
            if number < newest.number and len(kept) < self._keep:
                if before is not None and before.number == number:
                    kept.append(before)
                    continue
                try:
                    kept.append(manifests.read_manifest(self.folder, number))
                except CheckpointError:  # a damaged one needs no place
                    continue
        manifests.remove_unneeded(self.folder, kept)

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
        fd = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise CheckpointError(
            f"cannot write to {folder}: {error.strerror}", hint="choose another folder"
        ) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise CheckpointError(
            f"another save to {folder} is in progress", hint="one writer a folder"
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
