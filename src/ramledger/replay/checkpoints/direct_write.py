"""Writes files past the page cache, through a few buffers, in a thread of its own.

A checkpoint as large as memory would push out what the training reads, and wait for write-back.
Where a file system has no direct writes, they go through the page cache.
"""

import errno
import fcntl
import mmap
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.memory_copy import copy_into

BUFFER_BYTES = 4 << 20
BUFFERS = 3
ALIGN_BYTES = 4096  # of offsets and lengths; buffers begin with a page


class DirectWriter:
    """Appends to one file after the other. Errors of the thread are raised by a later call."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "ramledger-write")
        self._buffers = [
            np.frombuffer(mmap.mmap(-1, BUFFER_BYTES), np.uint8) for _ in range(BUFFERS)
        ]
        self._busy: deque[Future[None]] = deque()  # one for each buffer that is being written
        self._syncs: list[Future[None]] = []
        self._fd, self._offset, self._filled = -1, 0, 0

    def open(self, path: Path) -> None:
        """Create a file; what is appended from now on goes there."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags | os.O_DIRECT, 0o644)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            path.unlink(missing_ok=True)  # the kernel may have created it before it refused
            self._fd = os.open(path, flags, 0o644)
        self._offset = self._filled = 0

    def append(self, data: Array) -> None:
        """Copy bytes to the file's end; they may change afterwards."""
        done = 0
        while done < len(data):
            count = min(len(data) - done, BUFFER_BYTES - self._filled)
            target = self._buffers[0][self._filled : self._filled + count]
            copy_into(target, data[done : done + count])
            self._filled += count
            done += count
            if self._filled == BUFFER_BYTES:
                self._send()

    def _send(self) -> None:
        """Hand the first buffer to the thread and take the one that it was given first."""
        full = self._buffers[0][: self._filled].data
        self._busy.append(self._thread.submit(_write, self._fd, full, self._offset))
        self._offset += self._filled
        self._filled = 0
        self._buffers.append(self._buffers.pop(0))
        if len(self._busy) == BUFFERS:
            self._busy.popleft().result()

    def finish(self) -> None:
        """The file is complete: it is synced and closed while the next one is written."""
        if self._filled:
            self._send()
        fd, self._fd = self._fd, -1
        self._syncs.append(self._thread.submit(_sync_and_close, fd))

    def close(self) -> None:
        """Until every file is on the disk."""
        try:
            for waiting in (*self._busy, *self._syncs):
                waiting.result()
        finally:
            self._thread.shutdown()

    def abandon(self) -> None:
        """Close everything, after an error."""
        if self._fd >= 0:
            self._thread.submit(os.close, self._fd)
            self._fd = -1
        self._thread.shutdown()


def _write(fd: int, data: memoryview, offset: int) -> None:
    if len(data) % ALIGN_BYTES:  # the last of a file
        _use_page_cache(fd)
    while data:
        try:
            count = os.pwrite(fd, data, offset)
        except OSError as error:
            if error.errno != errno.EINVAL or not _use_page_cache(fd):
                raise
            continue
        data, offset = data[count:], offset + count


def _use_page_cache(fd: int) -> bool:
    """No more direct writes to this file; False if there were none."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)
    return bool(flags & os.O_DIRECT)


def _sync_and_close(fd: int) -> None:
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
