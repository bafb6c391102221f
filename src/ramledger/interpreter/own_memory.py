"""Memory of this process, read by address: a wrong address is an OSError, never a crash."""

import ctypes
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Self

from ramledger.descriptors import OwnedDescriptor, open_kernel_file

WORD = 8
_MOST_WORDS = 512
_UNPACK = [struct.Struct(f"{count}Q").unpack_from for count in range(_MOST_WORDS + 1)]

# Unsigned 64-bit numbers from an address on, so many; fewer where the mapping ends.
Reader = Callable[[int, int], tuple[int, ...]]


class OwnMemory:
    """Opened for a few reads; a context manager."""

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(WORD * _MOST_WORDS)
        self._file: OwnedDescriptor | None = open_kernel_file("/proc/self/mem")

    def reader(self) -> Reader:
        """Reads at once: while the GIL is held, nobody closes the descriptor."""
        if self._file is None:
            raise OSError("closed")
        return partial(_words, self._file.fileno(), self._buffer, _pread())

    def read(self, address: int, count: int) -> bytes:
        """So many bytes; fewer where the mapping ends."""
        if self._file is None or not 0 < address < 1 << 47:
            raise OSError(f"{address:#x} is no address of a program")
        buffer = ctypes.create_string_buffer(count)
        got = _pread()(self._file.fileno(), buffer, count, address)
        if got < 0:
            raise OSError(ctypes.get_errno(), f"no memory at {address:#x}")
        return buffer.raw[:got]

    def close(self) -> None:
        file, self._file = getattr(self, "_file", None), None
        if file is not None:
            file.close()

    def __del__(self) -> None:
        self.close()  # a walk that failed did not

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _words(number: int, buffer: Any, pread: Any, address: int, count: int = 1) -> tuple[int, ...]:
    if not 0 < address < 1 << 47:
        raise OSError(f"{address:#x} is no address of a program")
    got = pread(number, buffer, WORD * min(count, _MOST_WORDS), address) // WORD
    if got < 1:
        raise OSError(ctypes.get_errno(), f"no memory at {address:#x}")
    words: tuple[int, ...] = _UNPACK[got](buffer)
    return words


@cache
def _pread() -> Any:
    """It keeps the GIL: giving it up for each of many short reads would take milliseconds."""
    pread = ctypes.PyDLL(None, use_errno=True).pread
    pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
    pread.restype = ctypes.c_ssize_t
    return pread
