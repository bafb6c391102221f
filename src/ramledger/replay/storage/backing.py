"""Where the arrays of a buffer are: private memory, mapped files in a folder, or shared memory.

Every array is reserved at its full length and touched only as far as it is used.
"""

import errno
import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ramledger.errors import CheckpointError, ConfigError
from ramledger.units import format_bytes

Array = np.ndarray[Any, np.dtype[Any]]

# mmap(2), Linux: reserve no swap for pages that may never be touched; not in `mmap` before 3.13
_MAP_NORESERVE = 0x4000
HUGE_PAGE_BYTES = 2 << 20

_PLACE_HINT = "choose a folder that you may write to"
_ROOM_HINT = (
    "give a smaller capacity or budget, or make room; in a container, shared memory is small "
    "unless it was started with --shm-size"
)


class Backing(Protocol):
    """Gives arrays by name, zeroed, without making them resident.

    `sure`: how many items a full buffer is certain to use, if known.
    """

    def allocate(
        self, name: str, shape: tuple[int, ...], dtype: str, sure: int | None = None
    ) -> Array: ...


class Memory:
    """Private anonymous memory."""

    def allocate(
        self, name: str, shape: tuple[int, ...], dtype: str, sure: int | None = None
    ) -> Array:
        size_bytes = _size_bytes(shape, dtype)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        try:
            pages = mmap.mmap(-1, max(size_bytes, 1), flags=flags)
        except (OSError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"{size_bytes} bytes cannot be reserved for {name}: {error}",
                hint="lower the capacity or budget, give the episode_length, or raise `ulimit -v`",
            ) from None
        sure_bytes = size_bytes if sure is None else size_bytes // max(shape[0], 1) * sure
        whole_pages = sure_bytes // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
        if whole_pages >= 2 * HUGE_PAGE_BYTES:
            # random rows of a large array miss the TLB far less with large pages; where rows are
            # not sure to be used, one would make too much resident
            pages.madvise(mmap.MADV_HUGEPAGE, 0, whole_pages)
        return np.frombuffer(pages, dtype, count=size_bytes // np.dtype(dtype).itemsize).reshape(
            shape
        )


class Folder:
    """Mapped files: pages that the kernel writes back and reclaims when memory is short.

    The files are working memory, not a checkpoint: they change during training.
    Disk space is allocated when they are created: a page without space would be a SIGBUS.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._sure_bytes: dict[Path, int] = {}  # of the files made here
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot use {path} for rows: {error.strerror}", hint=_PLACE_HINT
            ) from None

    def allocate(
        self, name: str, shape: tuple[int, ...], dtype: str, sure: int | None = None
    ) -> Array:
        target = self.path / f"{name}.rows"
        size_bytes = max(_size_bytes(shape, dtype), 1)
        try:
            fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise CheckpointError(
                f"{target} exists: another buffer may be using it",
                hint="use one folder per buffer, or remove the files of a run that has ended",
            ) from None
        except OSError as error:
            raise ConfigError(
                f"cannot create {target}: {error.strerror}", hint=_PLACE_HINT
            ) from None
        sure_bytes = size_bytes if sure is None else size_bytes // max(shape[0], 1) * sure
        self._sure_bytes[target] = sure_bytes
        try:
            os.ftruncate(fd, size_bytes)
            self._take_room(fd, size_bytes)
            pages = mmap.mmap(fd, size_bytes)
        except OSError as error:
            self._undo()
            raise ConfigError(
                f"no room for {format_bytes(size_bytes)} of {name} in {self.path}: "
                f"{error.strerror}",
                hint=_ROOM_HINT,
            ) from None
        finally:
            os.close(fd)
        count = _size_bytes(shape, dtype) // np.dtype(dtype).itemsize
        return np.frombuffer(pages, dtype, count=count).reshape(shape)

    def _take_room(self, fd: int, size_bytes: int) -> None:
        """Allocate disk space, or OSError. On tmpfs only compare: allocating would use RAM."""
        if not _is_in_memory(fd):
            os.posix_fallocate(fd, 0, size_bytes)
            return
        found = os.fstatvfs(fd)
        free_bytes = found.f_bavail * found.f_frsize
        # of files that are not written to yet, what a full buffer is certain to use
        needed_bytes = sum(
            max(0, sure - path.stat().st_blocks * 512) for path, sure in self._sure_bytes.items()
        )
        if needed_bytes > free_bytes:
            reason = f"{format_bytes(free_bytes)} are free, {format_bytes(needed_bytes)} needed"
            raise OSError(errno.ENOSPC, reason)

    def _undo(self) -> None:
        """Remove the files if not all arrays could be made: they would block the next buffer."""
        for path in self._sure_bytes:
            with suppress(OSError):
                path.unlink()
        self._sure_bytes.clear()

    def remove(self) -> None:
        """Delete the files made here; arrays that are still mapped stay usable until they go."""
        while self._sure_bytes:
            self._sure_bytes.popitem()[0].unlink(missing_ok=True)


def _size_bytes(shape: tuple[int, ...], dtype: str) -> int:
    size = np.dtype(dtype).itemsize
    for side in shape:
        size *= int(side)
    return size


def _is_in_memory(fd: int) -> bool:
    """Whether a file is in a file system without a disk."""
    device = os.fstat(fd).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        # proc(5): the device is the third field, the type comes after a dash
        for line in f:
            if line.split(maxsplit=3)[2] == wanted:
                return line.partition(" - ")[2].startswith(("tmpfs ", "ramfs "))
    return False
