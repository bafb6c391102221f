"""Captures what a C function prints to a FILE*, without a temporary file or descriptor."""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

_LARGEST_TEXT_BYTES = 16 << 20


@functools.cache
def process_symbols() -> Any:
    """The functions of the running process as the dynamic linker binds them."""
    symbols = ctypes.CDLL(None)
    symbols.open_memstream.restype = ctypes.c_void_p
    symbols.open_memstream.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    symbols.fclose.argtypes = (ctypes.c_void_p,)
    symbols.free.argtypes = (ctypes.c_void_p,)
    symbols.free.restype = None
    return symbols


def printed_by(write: Callable[[int], int]) -> tuple[int, str]:
    """Call `write(FILE*)`; its return value and what it printed, cut after 16 MiB.

    (-1, "") where the C library has no open_memstream or no memory for it.
    """
    try:
        symbols = process_symbols()
    except (AttributeError, OSError, TypeError):
        return -1, ""
    buffer, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = symbols.open_memstream(ctypes.byref(buffer), ctypes.byref(size))
    if not stream:
        return -1, ""
    try:
        returned = write(stream)
    finally:
        # `buffer` and `size` are valid only once the stream is closed: open_memstream(3)
        failed = symbols.fclose(stream)
    try:
        if failed or not buffer.value:
            return -1, ""
        text = ctypes.string_at(buffer.value, min(size.value, _LARGEST_TEXT_BYTES))
        return returned, text.decode("ascii", "replace")
    finally:
        symbols.free(buffer)
