"""Rows that are complete, compressed in memory in groups, and unpacked for sampling."""

import mmap
from typing import Any

import numpy as np

from ramledger.replay.checkpoints.block_codec import codec_of
from ramledger.replay.storage.backing import Array

GROUP_ROWS = 8  # consecutive frames have much in common
_PAGE = mmap.PAGESIZE


class CompressedRows:
    """The compressed part of a row array; `rows` itself holds the rows that still change."""

    def __init__(self, rows: Array, first_row: int, codec: str) -> None:
        self.rows, self.first_row = rows, first_row
        self._compress, self._decompress = codec_of(codec)
        self._groups: list[bytes | None] = []  # rows up to here are compressed
        self.cold_rows = self.compressed_bytes = 0
        self._row_bytes = rows.nbytes // len(rows)

    def seal(self, begin: int, end: int) -> None:
        """Compress rows `begin` to `end`, whole groups, and release their memory."""
        for at in range(begin, end, GROUP_ROWS):
            number = self._group(at)
            self._groups += [None] * (number + 1 - len(self._groups))
            if self._groups[number] is not None:
                continue
            group = self.rows[at : at + GROUP_ROWS].reshape(-1).view(np.uint8)
            # a copy of the exact size: compressors return blocks sized for the worst case
            data = bytes(memoryview(self._compress(group.data)))
            self._groups[number] = data
            self.compressed_bytes += len(data)
            self.cold_rows += GROUP_ROWS
        self._give_back(begin, end)

    def _give_back(self, begin: int, end: int) -> None:
        """Drop the pages that lie wholly between two rows."""
        pages = _mapping(self.rows)
        if pages is None:
            return
        first = -(-begin * self._row_bytes // _PAGE) * _PAGE
        length = end * self._row_bytes // _PAGE * _PAGE - first
        if length > 0:
            pages.madvise(mmap.MADV_DONTNEED, first, length)

    def forget(self, begin: int, end: int) -> None:
        """Rows `begin` to `end` will be overwritten."""
        for at in range(begin, end, GROUP_ROWS):
            number = self._group(at)
            data = self._packed(number)
            if data is not None:
                self.compressed_bytes -= len(data)
                self.cold_rows -= GROUP_ROWS
                self._groups[number] = None

    def _packed(self, number: int) -> bytes | None:
        return self._groups[number] if 0 <= number < len(self._groups) else None

    def _group(self, row: int) -> int:
        return (row - self.first_row) // GROUP_ROWS

    def copy(self, begin: int, target: Array, known: dict[int, Array]) -> None:
        """Fill `target` with rows from `begin` on; `known` keeps groups for the next call."""
        at, end = begin, begin + len(target)
        while at < end:
            number = self._group(at) if at >= self.first_row else -1
            stop = min(end, self.first_row + (number + 1) * GROUP_ROWS)
            data = self._packed(number)
            if data is None:
                target[at - begin : stop - begin] = self.rows[at:stop]
            else:
                group = known.get(number)
                if group is None:
                    group = known[number] = self._unpacked(data)
                first = self.first_row + number * GROUP_ROWS
                target[at - begin : stop - begin] = group[at - first : stop - first]
            at = stop

    def _unpacked(self, data: bytes) -> Array:
        size = GROUP_ROWS * self._row_bytes
        flat = np.frombuffer(self._decompress(data, size), self.rows.dtype)
        return flat.reshape(GROUP_ROWS, *self.rows.shape[1:])

    def read(self, begin: int, end: int) -> Array:
        """Rows `begin` to `end` as a new array."""
        found = np.empty((end - begin, *self.rows.shape[1:]), self.rows.dtype)
        self.copy(begin, found, {})
        return found


def _mapping(rows: Array) -> mmap.mmap | None:
    """The anonymous memory behind an array; None if it is a file, whose pages are not ours."""
    owner: Any = rows
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return owner if isinstance(owner, mmap.mmap) else None
