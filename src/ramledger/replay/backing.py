"""Where the arrays of a buffer live: private memory, a folder of mapped files, or shared memory.

Every array is reserved at its full length and touched only as far as it is used.
"""

import mmap
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ramledger.errors import CheckpointError, ConfigError

Array = np.ndarray[Any, np.dtype[Any]]

# mmap(2), Linux: reserve no swap for pages that may never be touched; not in `mmap` before 3.13
_MAP_NORESERVE = 0x4000
HUGE_PAGE_BYTES = 2 << 20


class Backing(Protocol):
    """Gives arrays by name, zeroed, without making them resident.

    `sure` items, if told, are all that a full buffer is certain to use.
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
                hint="give a smaller capacity or budget, or raise `ulimit -v`",
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

    The files are working memory, not a checkpoint: they change while training goes on.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._made: list[Path] = []
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot use {path} for rows: {error.strerror}") from None

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
                hint="give each buffer a folder of its own, or remove the files of one that ended",
            ) from None
        except OSError as error:
            raise ConfigError(f"cannot create {target}: {error.strerror}") from None
        self._made.append(target)
        try:
            os.ftruncate(fd, size_bytes)
            pages = mmap.mmap(fd, size_bytes)
        finally:
            os.close(fd)
        count = _size_bytes(shape, dtype) // np.dtype(dtype).itemsize
        return np.frombuffer(pages, dtype, count=count).reshape(shape)

    def remove(self) -> None:
        """Delete the files made here; arrays that are still mapped stay usable until they go."""
        while self._made:
            self._made.pop().unlink(missing_ok=True)


def _size_bytes(shape: tuple[int, ...], dtype: str) -> int:
    size = np.dtype(dtype).itemsize
    for side in shape:
        size *= int(side)
    return size
