"""Segment files: blocks of column bytes one after the other, written once, never changed."""

import os
import re
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ramledger.durable_files import opened, read_head
from ramledger.errors import CheckpointError
from ramledger.replay.checkpoints.block_codec import MIN_GAIN, RAW, codec_of
from ramledger.replay.checkpoints.direct_write import DirectWriter
from ramledger.replay.checkpoints.manifest import SEGMENT_SUFFIX, Block, Part
from ramledger.replay.storage.backing import Array

MAGIC = b"ramledger.segment/2\n"
LEGACY_MAGIC = b"ramledger.segment/1\n"
HEAD_BYTES = len(MAGIC) + 32 + 1 + 16 + 1
SEGMENT_BYTES = 48 << 20  # a segment ends with the block that passes this
BLOCK_BYTES = 1 << 20
VERIFY_BYTES = 1 << 18
CHECKSUM_THREADS = 2  # one is slower than a fast disk
BLOCKS_BEHIND = 4  # so many blocks may wait for their checksums

_NAMED = re.compile(r"[0-9]{8}-([0-9a-f]{16})-[0-9]{4,9}\.seg")

Read = Callable[[int, int], Array]  # (begin, end) -> those items, contiguous
_WaitingPart = tuple[int, int, Future[int], str]  # offset, bytes, checksum, codec


def head_of(buffer_id: str, lineage: str) -> bytes:
    """What a segment begins with: whose it is."""
    return MAGIC + f"{buffer_id} {lineage}\n".encode()


def is_written_by(path: Path, buffer_id: str) -> bool:
    """Whether a file is a segment of this buffer, by its name and its first bytes.

    A writer that was killed early leaves an empty one.
    """
    match = _NAMED.fullmatch(path.name)
    if match is None:
        return False
    try:
        found = read_head(path, HEAD_BYTES)
    except CheckpointError:
        return False
    return found in (b"", head_of(buffer_id, match[1]))


class SegmentWriter:
    """Writes blocks into as many segments as they take; checksums run beside the writing."""

    def __init__(
        self, folder: Path, number: int, buffer_id: str, lineage: str, compress: str = RAW
    ) -> None:
        self.folder, self.number = folder, number
        self._buffer_id, self._lineage = buffer_id, lineage
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
        # only one writer has this lineage, so names of segments are unique
        name = f"{self.number:08d}-{self._lineage}-{len(self._names):04d}{SEGMENT_SUFFIX}"
        self._file.open(self.folder / name)
        self._is_open = True
        self._names.append(name)
        self._offset = 0
        self._append(np.frombuffer(head_of(self._buffer_id, self._lineage), np.uint8))

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
        self._piece = bytearray(VERIFY_BYTES)

    def read_from(self, name: str, path: Path) -> None:
        """Take segment `name` from a file that is not called so yet."""
        fd = self._open[name] = opened(path)
        if not _is_segment(fd, name):
            raise CheckpointError(
                f"{path} is not a segment file", hint="an earlier save may be intact"
            )

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
        whole = self._unpacked(block, part, data, size) if part.codec else data
        if len(whole) != size:
            raise self._damaged(block, "has another size than its column")
        items = np.frombuffer(whole, target.dtype).reshape(-1, *target.shape[1:])
        first = block.live_begin - block.begin
        target[:] = items[first : first + len(target)]

    def _unpacked(self, block: Block, part: Part, data: bytearray, size: int) -> bytes:
        decompress = codec_of(part.codec)[1]
        try:
            return decompress(data, size)
        except Exception as error:  # every codec has errors of its own
            raise self._damaged(block, f"cannot be decompressed: {error}") from None

    def verify(self, block: Block) -> None:
        """Read a block in pieces and compare its checksums."""
        fd, piece = self._fd(block), memoryview(self._piece)
        for part in block.parts:
            checksum, done = 0, 0
            while done < part.stored_bytes:
                target = piece[: part.stored_bytes - done]
                count = self._pread(block, fd, target, part.offset + done)
                checksum = zlib.crc32(target[:count], checksum)
                done += count
            if checksum != part.crc32:
                raise self._damaged(block, "does not match its checksum")

    def _fill(self, block: Block, part: Part, target: memoryview) -> None:
        fd = self._fd(block)
        done = 0
        while done < len(target):
            done += self._pread(block, fd, target[done:], part.offset + done)
        if zlib.crc32(target) != part.crc32:
            raise self._damaged(block, "does not match its checksum")

    def _pread(self, block: Block, fd: int, target: memoryview, offset: int) -> int:
        try:
            count = os.preadv(fd, [target], offset)
        except OSError as error:
            raise self._damaged(block, f"cannot be read: {error.strerror}") from None
        if not count:
            raise self._damaged(block, "is cut off")
        return count

    def _fd(self, block: Block) -> int:
        fd = self._open.get(block.segment)
        if fd is None:
            if len(self._open) >= 64:
                os.close(self._open.pop(next(iter(self._open))))
            fd = self._open[block.segment] = opened(self.folder / block.segment)
            if not _is_segment(fd, block.segment):
                raise self._damaged(block, "is not a segment file")
        return fd

    def _damaged(self, block: Block, what: str) -> CheckpointError:
        return CheckpointError(
            f"{self.folder / block.segment}: the block of {block.group} "
            f"{block.begin} to {block.end} {what}",
            hint="an earlier save may be intact: `ramledger replay verify` checks all of them",
        )

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()


def _is_segment(fd: int, name: str) -> bool:
    head = os.pread(fd, HEAD_BYTES, 0)
    match = _NAMED.fullmatch(name)
    if match is None:
        return head.startswith(LEGACY_MAGIC)
    return head.startswith(MAGIC) and head.endswith(f" {match[1]}\n".encode())
