"""Segment files: blocks of column bytes one after the other, written once, never changed."""

import os
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ramledger.errors import CheckpointError
from ramledger.replay.backing import Array
from ramledger.replay.codec import MIN_GAIN, RAW, codec_of
from ramledger.replay.direct import DirectWriter
from ramledger.replay.manifest import SEGMENT_SUFFIX, Block, Part

MAGIC = b"ramledger.segment/1\n"
SEGMENT_BYTES = 48 << 20  # a segment ends with the block that passes this
BLOCK_BYTES = 1 << 20
CHECKSUM_THREADS = 2  # one is slower than a fast disk
BLOCKS_BEHIND = 4  # so many blocks may wait for their checksums

Read = Callable[[int, int], Array]  # (begin, end) -> those items, contiguous
_WaitingPart = tuple[int, int, Future[int], str]  # offset, bytes, checksum, codec


class SegmentWriter:
    """Writes blocks into as many segments as they take; checksums run beside the writing."""

    def __init__(self, folder: Path, number: int, compress: str = RAW) -> None:
        self.folder, self.number = folder, number
        self.written_bytes = 0
        self._compress = compress
        self._codec = codec_of(compress) if compress else None
        self._names: list[str] = []
        self._is_open, self._offset = False, 0
        self._waiting: deque[tuple[str, int, int, str, list[_WaitingPart]]] = deque()
        self._checksums = ThreadPoolExecutor(CHECKSUM_THREADS, "ramledger-checksum")
        self._file = DirectWriter()

    def write(self, group: str, begin: int, end: int, columns: list[Read]) -> list[Block]:
        """Append one block of every column; returns blocks that are complete by now, in order.

        Until a block is complete, what it was read from must not change.
        """
        parts = [self._write_part(read(begin, end)) for read in columns]
        self._waiting.append((group, begin, end, self._names[-1], parts))
        if self._offset >= SEGMENT_BYTES:
            self._finish()
        return [self._complete() for _ in range(len(self._waiting) - BLOCKS_BEHIND)]

    def _complete(self) -> Block:
        group, begin, end, name, found = self._waiting.popleft()
        parts = tuple(Part(offset, size, crc.result(), codec) for offset, size, crc, codec in found)
        return Block(group, begin, end, begin, end, name, parts)

    def _write_part(self, items: Array) -> _WaitingPart:
        data = np.ascontiguousarray(items).reshape(-1).view(np.uint8)
        codec = RAW
        if self._codec is not None and len(data):
            packed = self._codec[0](data.data)
            if len(packed) <= (1 - MIN_GAIN) * len(data):
                data, codec = np.frombuffer(packed, np.uint8), self._compress
        if not self._is_open:
            self._open()
        offset = self._offset
        checksum = self._checksums.submit(zlib.crc32, data.data)
        self._append(data)
        return offset, len(data), checksum, codec

    def _open(self) -> None:
        name = f"{self.number:08d}-{len(self._names):04d}{SEGMENT_SUFFIX}"
        self._file.open(self.folder / name)
        self._is_open = True
        self._names.append(name)
        self._offset = 0
        self._append(np.frombuffer(MAGIC, np.uint8))

    def _append(self, data: Array) -> None:
        self._offset += len(data)
        self.written_bytes += len(data)
        self._file.append(data)

    def _finish(self) -> None:
        self._is_open = False
        self._file.finish()

    def close(self) -> list[Block]:
        """Return the rest of the blocks when every segment is on the disk."""
        try:
            if self._is_open:
                self._finish()
            self._file.close()
            return [self._complete() for _ in range(len(self._waiting))]
        finally:
            self._checksums.shutdown()

    def abandon(self) -> None:
        """Remove what was written."""
        self._file.abandon()
        self._checksums.shutdown()
        for name in self._names:
            try:
                os.unlink(self.folder / name)
            except OSError:  # it is removed with the next save
                continue


class SegmentReader:
    """Reads blocks back, each verified; a damaged one is named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, int] = {}

    def read(self, block: Block, number: int, target: Array) -> None:
        """Fill `target`, the live items of a column, with part `number` of a block."""
        part = block.parts[number]
        is_whole = (block.live_begin, block.live_end) == (block.begin, block.end)
        if is_whole and not part.codec:
            flat = target.reshape(-1).view(np.uint8)
            if len(flat) != part.stored_bytes:
                raise self._damaged(block, "has another size than its column")
            self._fill(block, part, flat.data)
            return
        data = bytearray(part.stored_bytes)
        self._fill(block, part, memoryview(data))
        item_bytes = target.nbytes // max(len(target), 1)
        size = item_bytes * (block.end - block.begin)
        whole: Any = codec_of(part.codec)[1](data, size) if part.codec else data
        if len(whole) != size:
            raise self._damaged(block, "has another size than its column")
        items = np.frombuffer(whole, target.dtype).reshape(-1, *target.shape[1:])
        first = block.live_begin - block.begin
        target[:] = items[first : first + len(target)]

    def verify(self, block: Block) -> None:
        """Read a block and compare its checksums."""
        for part in block.parts:
            self._fill(block, part, memoryview(bytearray(part.stored_bytes)))

    def _fill(self, block: Block, part: Part, target: memoryview) -> None:
        fd = self._fd(block)
        done = 0
        while done < len(target):
            count = os.preadv(fd, [target[done:]], part.offset + done)
            if not count:
                raise self._damaged(block, "is cut off")
            done += count
        if zlib.crc32(target) != part.crc32:
            raise self._damaged(block, "does not match its checksum")

    def _fd(self, block: Block) -> int:
        fd = self._open.get(block.segment)
        if fd is None:
            if len(self._open) >= 64:
                os.close(self._open.pop(next(iter(self._open))))
            try:
                fd = os.open(self.folder / block.segment, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise CheckpointError(
                    f"cannot read {self.folder / block.segment}: {error.strerror}",
                    hint="an earlier save may be whole",
                ) from None
            self._open[block.segment] = fd
            if os.pread(fd, len(MAGIC), 0) != MAGIC:
                raise self._damaged(block, "is no segment")
        return fd

    def _damaged(self, block: Block, what: str) -> CheckpointError:
        return CheckpointError(
            f"{self.folder / block.segment}: the block of {block.group} "
            f"{block.begin} to {block.end} {what}",
            hint="an earlier save may be whole: `ramledger replay verify` tells",
        )

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
