"""Data that observations are windows of: registered once, shared, identified by a hash."""

import hashlib
from typing import Any

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay.storage.backing import Array

HASH_CHUNK_BYTES = 8 << 20


class Table:
    """A read-only table of rows. Its hash goes into checkpoints, its bytes do not."""

    def __init__(self, name: str, rows: Any) -> None:
        found = np.ascontiguousarray(rows)
        if found.ndim < 1 or not len(found) or found.dtype.kind not in "biufc":
            raise ConfigError(
                f"table {name!r} must be a numeric array with rows, "
                f"got shape {found.shape} and dtype {found.dtype}",
                hint="register one row per time step",
            )
        self.name = name
        self.rows: Array = found.view()
        self.rows.flags.writeable = False
        self.row_bytes = found.nbytes // len(found)
        self.address: int = found.__array_interface__["data"][0]
        self._sha256 = ""

    @property
    def sha256(self) -> str:
        """Of shape, dtype and bytes; computed when first asked for, in bounded memory."""
        if not self._sha256:
            digest = hashlib.sha256(f"{self.rows.dtype.str}{self.rows.shape}".encode())
            flat = self.rows.reshape(-1).view(np.uint8)
            for begin in range(0, len(flat), HASH_CHUNK_BYTES):
                digest.update(flat[begin : begin + HASH_CHUNK_BYTES].data)
            self._sha256 = digest.hexdigest()
        return self._sha256

    def position_of(self, window: Array) -> int | None:
        """The last row of a window that is a view of this very memory; None if it is not."""
        if window.shape[1:] != self.rows.shape[1:] or window.dtype != self.rows.dtype:
            return None
        if not window.flags.c_contiguous:
            return None
        offset = window.__array_interface__["data"][0] - self.address
        first, rest = divmod(offset, self.row_bytes)
        if rest or not 0 <= first <= len(self.rows) - len(window):
            return None
        return int(first + len(window) - 1)

    def find(self, window: Array) -> int | None:
        """The last row of the first place that holds the same bytes, in bounded memory."""
        wanted = np.ascontiguousarray(window).reshape(len(window), -1).view(np.uint8)
        rows = self.rows.reshape(len(self.rows), -1).view(np.uint8)
        step, count = max(1, HASH_CHUNK_BYTES // self.row_bytes), len(wanted)
        for begin in range(0, len(rows) - count + 1, step):
            end = min(begin + step, len(rows) - count + 1)
            is_first = (rows[begin:end] == wanted[0]).all(axis=1)
            is_first &= (rows[begin + count - 1 : end + count - 1] == wanted[-1]).all(axis=1)
            for at in (np.flatnonzero(is_first) + begin).tolist():
                if np.array_equal(rows[at : at + count], wanted):
                    return int(at + count - 1)
        return None
