"""Copies of rows, byte for byte, as fast where source and target are not aligned to each other."""

import numpy as np

from ramledger.replay.storage.backing import Array

# below, a loop gains less than it takes to set up
LARGE_BYTES = 16 << 10

_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def copy_into(target: Array, source: Array) -> None:
    """`target[...] = source` for two arrays of one dtype and shape.

    numpy assigns by memmove. Where that is `rep movsb`, it takes up to seven times as long if the
    two are aligned differently (glibc 2.36 on an AMD EPYC, 35 kB); a loop over integers does not.
    """
    kind = _UNSIGNED.get(source.itemsize)
    if kind is None or source.nbytes < LARGE_BYTES:
        target[...] = source
    else:
        np.positive(source.view(kind), target.view(kind))


def copy_windows(rows: Array, first: Array, length: int, target: Array) -> None:
    """Fill item i of `target` with the `length` rows from `first[i]` on; both are contiguous."""
    kind = _UNSIGNED.get(rows.itemsize, _UNSIGNED[1])
    source, items = rows.reshape(-1).view(kind), target.reshape(len(target), -1).view(kind)
    row_items = len(source) // len(rows)
    size, copy = length * row_items, np.positive
    begins = first.astype(np.int64) * row_items  # row numbers have 32 bits, items may need more
    for begin, item in zip(begins.tolist(), items, strict=True):
        copy(source[begin : begin + size], item)
