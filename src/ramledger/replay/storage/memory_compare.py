"""Whether two arrays hold the same bytes: NaN equals itself, and 0.0 is not -0.0."""

import ctypes
from collections.abc import Iterable
from itertools import repeat
from typing import Any

from ramledger.replay.storage.backing import Array

# up to here two copies are cheaper than finding out addresses
SMALL_BYTES = 4096

# not `CDLL`: letting other threads run takes longer than most comparisons do
_memcmp = ctypes.PyDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int
_first_byte: Any = ctypes.c_char.from_buffer


def same_bytes(a: Array, b: Array) -> bool:
    """Compare two arrays of one dtype and shape byte by byte."""
    size_bytes = a.nbytes
    if size_bytes <= SMALL_BYTES:
        return a.tobytes() == b.tobytes()
    if a.flags.c_contiguous and b.flags.c_contiguous:
        return not _memcmp(address_of(a), address_of(b), size_bytes)
    if len(a) > 1:
        return all(map(same_bytes, a, b))
    return same_bytes(a[0], b[0]) if a.ndim else a.tobytes() == b.tobytes()


def same_items(a: Array, b: Array) -> bool:
    """The same for arrays whose items are contiguous, but not one after the other."""
    if not len(a) or not (a[0].flags.c_contiguous and b[0].flags.c_contiguous):
        return all(map(same_bytes, a, b))
    size_bytes = a[0].nbytes
    places = _places(a), _places(b)
    return not any(map(_memcmp, *places, repeat(size_bytes)))


def _places(array: Array) -> Iterable[int]:
    """Where each item is."""
    first, step = address_of(array), array.strides[0]
    return range(first, first + len(array) * step, step) if step else repeat(first, len(array))


def address_of(array: Array) -> int:
    """Where the first byte is."""
    try:
        return ctypes.addressof(_first_byte(array))
    except (TypeError, ValueError, BufferError):  # read-only, or with gaps: ten times as long
        return int(array.__array_interface__["data"][0])
