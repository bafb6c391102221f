"""Observation fields in their rows: how each kind is checked, compared, written and gathered.

PlainColumn   a row is the value
FrameColumn   a row is one frame; an observation is the last `stack` rows
TableColumn   a row is a position; an observation is the table's rows that end there
"""

import math
from typing import Any, Protocol

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay.schema import Field, Frames, ObservationField, TableWindow
from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.casting import checked_array
from ramledger.replay.storage.compressed_rows import CompressedRows
from ramledger.replay.storage.memory_compare import address_of, same_bytes, same_items
from ramledger.replay.storage.memory_copy import copy_into, copy_windows
from ramledger.replay.storage.table import Table

# a copy a window pays from this size on; below, one indexed copy of all rows is faster
LOOP_WINDOW_BYTES = 128 << 10

FULL_HISTORY = 0x7FFF  # a row whose predecessors are all real
ZERO_PADDED = 0x8000  # before the episode's first row come zeros, else that row repeated
_FULL_HISTORY = np.array(FULL_HISTORY, np.uint16)  # converted once


class Column(Protocol):
    """One observation field. Values of a call are checked first; rows are row numbers."""

    name: str
    rows: Array
    stack: int

    def checked(self, value: Any, count: int | None = None) -> Array: ...
    def same(self, row: int, value: Array, history: int) -> bool: ...
    def follows(self, value: Array, following: Array) -> bool: ...
    def is_linked(self, values: Array, following: Array) -> bool: ...
    def padding(self, value: Array) -> int | None: ...
    def put(self, row: int, value: Array) -> None: ...
    def put_each(self, rows: Array, values: Array) -> None: ...
    def put_head(self, row: int, value: Array) -> None: ...
    def put_run(self, row: int, following: Array) -> None: ...
    def gather(self, picks: "Picks", out: "Pair | None") -> "Pair": ...


Pair = tuple[Array, Array]


class Picks:
    """Rows of a batch: where each transition starts and where its next observation is."""

    __slots__ = ("_following", "count", "history", "is_tied", "starts")

    def __init__(self, starts: Array, following: Array | None, history: Array | None) -> None:
        self.starts = starts
        self.is_tied = following is None  # every next observation is the following row
        self._following = following
        self.history = history
        self.count = len(starts)

    @property
    def following(self) -> Array:
        return self.starts + 1 if self._following is None else self._following

    def padded(self, rows: Array, stack: int) -> list[tuple[int, int, bool]]:
        """(sample, missing rows, with zeros) for windows that begin before their episode."""
        if self.history is None or stack == 1:
            return []
        found = self.history.take(rows)
        known = found & _FULL_HISTORY
        if known.min(initial=FULL_HISTORY) >= stack - 1:
            return []
        missing = stack - 1 - known.astype(np.int64)
        return [
            (int(at), int(missing[at]), bool(found[at] & ZERO_PADDED))
            for at in np.flatnonzero(missing > 0)
        ]


def column_of(
    name: str, kind: ObservationField, rows: Array, tables: dict[str, Table]
) -> "PlainColumn | FrameColumn | TableColumn":
    """The column for a kind of field."""
    if isinstance(kind, Frames):
        return FrameColumn(name, kind, rows)
    if isinstance(kind, TableWindow):
        if kind.table not in tables:
            raise ConfigError(
                f"field {name!r} is a window of table {kind.table!r}, which is not registered",
                hint=f'pass tables={{"{kind.table}": array}}',
            )
        return TableColumn(name, kind, rows, tables[kind.table])
    return PlainColumn(name, kind, rows)


class _WholeRows:
    """Columns in which one row is one observation, whatever came before it."""

    rows: Array

    def padding(self, value: Array) -> int | None:
        return FULL_HISTORY

    def put(self, row: int, value: Array) -> None:
        self.rows[row] = value

    def put_each(self, rows: Array, values: Array) -> None:
        self.rows[rows] = values

    def put_head(self, row: int, value: Array) -> None:
        self.rows[row] = value

    def put_run(self, row: int, following: Array) -> None:
        copy_into(self.rows[row : row + len(following)], following)


class PlainColumn(_WholeRows):
    """A field whose rows are its values."""

    stack = 1

    def __init__(self, name: str, kind: Field, rows: Array) -> None:
        self.name, self.rows, self.shape = name, rows, kind.shape
        self.dtype = np.dtype(kind.dtype)

    def checked(self, value: Any, count: int | None = None) -> Array:
        shape = self.shape if count is None else (count, *self.shape)
        return checked_array(self.name, value, shape, self.dtype)

    def same(self, row: int, value: Array, history: int) -> bool:
        stored = self.rows[row]
        if stored.nbytes <= 1024:
            return bool(stored.tobytes() == value.tobytes())
        return same_bytes(stored, value)

    def follows(self, value: Array, following: Array) -> bool:
        return True

    def is_linked(self, values: Array, following: Array) -> bool:
        strides = values.strides
        if strides == following.strides and (
            address_of(following) - address_of(values) == strides[0] or len(values) < 2
        ):
            return True  # the same memory at the same moment
        return same_bytes(values[1:], following[:-1])

    def gather(self, picks: Picks, out: Pair | None) -> Pair:
        if out is None:
            both = np.empty((2, picks.count, *self.shape), self.dtype)
            out = both[0], both[1]
        # "clip" is the one mode in which numpy writes to `out` without a copy in between
        self.rows.take(picks.starts, 0, out[0], "clip")
        self.rows.take(picks.following, 0, out[1], "clip")
        return out


class FrameColumn:
    """A field whose rows are single frames."""

    def __init__(self, name: str, kind: Frames, rows: Array) -> None:
        self.name, self.rows, self.shape = name, rows, kind.shape
        self.dtype, self.stack, self.axis = np.dtype(kind.dtype), kind.stack, kind.axis
        self.row_bytes = kind.frame.bytes
        self.cold: CompressedRows | None = None
        # item i is rows i to i + stack, one copy each when it is picked
        self._joined: Array = np.ndarray(
            (max(len(rows) - kind.stack, 0),), f"V{self.row_bytes * (kind.stack + 1)}",
            rows.reshape(-1), strides=(self.row_bytes,),
        )  # fmt: skip

    def checked(self, value: Any, count: int | None = None) -> Array:
        one = (self.stack, *self.shape) if self.axis == 0 else (*self.shape, self.stack)
        array = checked_array(self.name, value, one if count is None else (count, *one), self.dtype)
        if self.axis == 0:
            return array
        return np.moveaxis(array, -1, 0 if count is None else 1)

    def same(self, row: int, value: Array, history: int) -> bool:
        missing = self.stack - 1 - (history & FULL_HISTORY)
        if missing <= 0:
            return same_bytes(self.rows[row - self.stack + 1 : row + 1], value)
        first = row - (history & FULL_HISTORY)
        if not same_bytes(self.rows[first : row + 1], value[missing:]):
            return False
        if history & ZERO_PADDED:
            return not np.ascontiguousarray(value[:missing]).view(np.uint8).any()
        return all(same_bytes(self.rows[first], frame) for frame in value[:missing])

    def follows(self, value: Array, following: Array) -> bool:
        if self.stack == 1:
            return True
        later, earlier = value[1:], following[:-1]
        if later.strides == earlier.strides and address_of(later) == address_of(earlier):
            return True  # the same memory at the same moment
        return same_bytes(later, earlier)

    def is_linked(self, values: Array, following: Array) -> bool:
        if self._is_one_sequence(values, following):
            return True
        later, earlier = values[1:], following[:-1]
        is_one = later.strides == earlier.strides and address_of(later) == address_of(earlier)
        if len(values) > 1 and not is_one and not same_bytes(later, earlier):
            return False
        return self.stack == 1 or same_items(values[:, 1:], following[:, :-1])

    def _is_one_sequence(self, values: Array, following: Array) -> bool:
        """Windows that overlap in memory: proof that they are windows of one sequence."""
        strides = values.strides
        return (
            strides == following.strides
            and (self.stack == 1 or strides[0] == strides[1])
            and address_of(following) - address_of(values) == strides[0]
        )

    def padding(self, value: Array) -> int | None:
        """The history of a first row that represents `value` alone; None if it cannot."""
        if self.stack == 1:
            return FULL_HISTORY
        if same_bytes(value[0], value[-1]) and same_bytes(value[:-1], value[1:]):
            return 0
        if not value[0].any() and not np.ascontiguousarray(value[:-1]).view(np.uint8).any():
            return ZERO_PADDED
        return None

    def put(self, row: int, value: Array) -> None:
        self.rows[row] = value[-1]

    def put_each(self, rows: Array, values: Array) -> None:
        self.rows[rows] = values[:, -1]

    def put_head(self, row: int, value: Array) -> None:
        copy_into(self.rows[row - self.stack + 1 : row + 1], value)

    def put_run(self, row: int, following: Array) -> None:
        copy_into(self.rows[row : row + len(following)], following[:, -1])

    def gather(self, picks: Picks, out: Pair | None) -> Pair:
        if picks.is_tied:
            return self._gather_tied(picks, out)
        both = np.empty((2, picks.count, self.stack, *self.shape), self.dtype)
        for target, rows in zip(both, (picks.starts, picks.following), strict=True):
            self._copy(rows - (self.stack - 1), self.stack, target)
            self._pad(target, picks.padded(rows, self.stack))
        return self._moved(both[0]), self._moved(both[1])

    def _gather_tied(self, picks: Picks, out: Pair | None) -> Pair:
        """Observation and next observation share their rows, so `stack + 1` rows hold both."""
        shape = (picks.count, self.stack + 1, *self.shape)
        first = picks.starts - (self.stack - 1)
        shared = None if out is None else self._reused(out, shape)
        if shared is not None:
            self._copy(first, self.stack + 1, shared)
        elif self.cold is None and self.row_bytes * (self.stack + 1) < LOOP_WINDOW_BYTES:
            shared = self._joined[first].view(self.dtype).reshape(shape)
        else:
            shared = np.empty(shape, self.dtype)
            self._copy(first, self.stack + 1, shared)
        self._pad(shared, picks.padded(picks.starts, self.stack))
        return self._moved(shared[:, :-1]), self._moved(shared[:, 1:])

    def _reused(self, out: Pair, shape: tuple[int, ...]) -> Array | None:
        """The memory that both arrays of an earlier batch are views of, if it is one for both."""
        shared = out[0].base
        if shared is None or shared is not out[1].base or shared.size * shared.itemsize != (
            math.prod(shape) * self.dtype.itemsize
        ):  # fmt: skip
            return None
        return shared.view(self.dtype).reshape(shape)

    def _copy(self, first: Array, length: int, target: Array) -> None:
        if self.cold is not None:
            known: dict[int, Array] = {}
            for at, begin in enumerate(first.tolist()):
                self.cold.copy(begin, target[at], known)
            return
        if self.row_bytes * length >= LOOP_WINDOW_BYTES:
            copy_windows(self.rows, first, length, target)
            return
        index = (first[:, None] + np.arange(length)).reshape(-1)
        self.rows.take(index, 0, target.reshape(-1, *self.shape), "clip")

    def _pad(self, target: Array, padded: list[tuple[int, int, bool]]) -> None:
        for at, missing, with_zeros in padded:
            target[at, :missing] = 0 if with_zeros else target[at, missing]

    def _moved(self, target: Array) -> Array:
        return target if self.axis == 0 else np.moveaxis(target, 1, -1)


class TableColumn(_WholeRows):
    """A field whose rows are positions in a table. Values are positions, or views of the table."""

    stack = 1

    def __init__(self, name: str, kind: TableWindow, rows: Array, table: Table) -> None:
        self.name, self.rows, self.table, self.length = name, rows, table, kind.length
        if kind.length > len(table.rows):
            raise ConfigError(
                f"{name}: windows have {kind.length} rows, but the table only {len(table.rows)}",
                hint="shorten the window",
            )
        self.shape = (kind.length, *table.rows.shape[1:])

    def checked(self, value: Any, count: int | None = None) -> Array:
        array = np.asarray(value)
        if array.ndim == (0 if count is None else 1) and array.dtype.kind in "iu":
            found = array
        elif count is None:
            found = np.asarray(self._position(array))
        else:
            found = np.asarray([self._position(window) for window in array])
        if count is not None and len(found) != count:
            raise ConfigError(
                f"{self.name}: {len(found)} windows, expected {count}",
                hint="give one position or window for each transition",
            )
        if (found < self.length - 1).any() or (found >= len(self.table.rows)).any():
            raise ConfigError(
                f"{self.name}: position outside of table {self.table.name!r}",
                hint=f"a position is the window's last row: {self.length - 1} to "
                f"{len(self.table.rows) - 1}",
            )
        return found.astype(np.int32)

    def _position(self, window: Array) -> int:
        if window.shape != self.shape:
            raise ConfigError(
                f"{self.name} has shape {window.shape}, windows have {self.shape}",
                hint="pass the position of its last row, or a view of the registered table",
            )
        position = self.table.position_of(window)
        if position is None:
            raise self._no_view(window)
        return position

    def _no_view(self, window: Array) -> ConfigError:
        """Why a window is refused, from one comparison with the whole table."""
        name, table = self.name, self.table
        rows = f"buffer.tables[{table.name!r}].rows"
        if window.dtype != table.rows.dtype:
            return ConfigError(
                f"{name} has dtype {window.dtype}, table {table.name!r} has {table.rows.dtype}",
                hint=f"register the table as {window.dtype}, and pass positions or views of {rows}",
            )
        last = table.find(window)
        if last is None:
            return ConfigError(
                f"{name} is in no {self.length} consecutive rows of table {table.name!r}",
                hint="register the data that windows are taken from, as it is when they are; "
                f'or store them as Frames({self.shape[1:]}, "{window.dtype}", {self.length})',
            )
        return ConfigError(
            f"{name} is a copy of rows {last - self.length + 1} to {last} of table "
            f"{table.name!r}, not a view of them",
            hint=f"pass the position of its last row, {last}, or a view: "
            f"{rows}[{last - self.length + 1}:{last + 1}]",
        )

    def same(self, row: int, value: Array, history: int) -> bool:
        return bool(self.rows[row] == value)

    def follows(self, value: Array, following: Array) -> bool:
        return True

    def is_linked(self, values: Array, following: Array) -> bool:
        return bool((values[1:] == following[:-1]).all())

    def gather(self, picks: Picks, out: Pair | None) -> Pair:
        here, there = self.rows[picks.starts], self.rows[picks.following]
        length, rows = self.length, self.table.rows
        if (there - here == 1).all():
            shape = (picks.count, length + 1, *rows.shape[1:])
            shared = out[0].base if out is not None else None
            if shared is None or shared.shape != shape:
                shared = np.empty(shape, rows.dtype)
            copy_windows(rows, here - (length - 1), length + 1, shared)
            return shared[:, :-1], shared[:, 1:]
        pair = np.empty((2, picks.count, *self.shape), rows.dtype)
        for target, positions in zip(pair, (here, there), strict=True):
            copy_windows(rows, positions - (length - 1), length, target)
        return pair[0], pair[1]
