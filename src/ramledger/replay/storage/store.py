"""The arrays of a buffer and every write to them: rows of observations, a ring of transitions.

A transition is a start row, flags and its step fields. Its observation ends at the start row and
its next observation at the following row, unless a flag says that they share nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ramledger.replay.schema import Frames, Schema
from ramledger.replay.storage.backing import Array, Backing
from ramledger.replay.storage.columns import (
    FULL_HISTORY,
    FrameColumn,
    Picks,
    PlainColumn,
    column_of,
)
from ramledger.replay.storage.compressed_rows import CompressedRows
from ramledger.replay.storage.layout import Layout
from ramledger.replay.storage.memory_compare import same_bytes
from ramledger.replay.storage.memory_copy import copy_into
from ramledger.replay.storage.row_access import OverwriteGuard, RowLoader
from ramledger.replay.storage.stream_rows import RowChunks, Stream
from ramledger.replay.storage.table import Table

TERMINATED = 1
TRUNCATED = 2
JUMPS = 4  # the next observation is stored apart, in one row that follows
CONTINUES = 8  # the observation is the next observation of the transition before
JUMPS_STACK = 16  # the next observation is stored apart, in a whole stack of rows
REPEATS = 32  # the next observation is the observation itself: both end at the start row

_CONTINUES = np.array(CONTINUES, np.uint8)  # converted once
QUICK_BYTES = 64 << 10

Values = Sequence[Array]  # one a column


def rows_ahead(flags: Array, stack: int) -> Array:
    """How many rows after an observation's last one that of the next observation lies."""
    found: Array = np.where(flags & REPEATS, 0, np.where(flags & JUMPS_STACK, stack, 1))
    return found


class Store:
    """One writer at a time; the caller holds the lock."""

    def __init__(
        self,
        schema: Schema,
        layout: Layout,
        backing: Backing,
        tables: dict[str, Table],
        compress: str = "",
    ) -> None:
        self.schema, self.layout = schema, layout
        self.stack, self.n_envs, self.slots = schema.stack, layout.streams, layout.slots
        self.arena = RowChunks(layout.chunks, layout.chunk_rows, schema.stack, layout.streams)
        self.streams = self.arena.streams
        count, rows = layout.transitions, self.arena.rows
        self.starts = backing.allocate("start", (count,), "int32")
        self.flags = backing.allocate("flags", (count,), "uint8")
        self.steps = {
            name: backing.allocate(name, (count, *kind.shape), kind.dtype)
            for name, kind in schema.steps.items()
        }
        packed = {n for n, k in schema.observations.items() if compress and isinstance(k, Frames)}
        # episode ends need further rows: those are not sure to be used, nor are rows that are
        # compressed, whose pages go back: a huge page would come back whole
        self.rows = {
            name: backing.allocate(
                name, (rows, *kind.shape), kind.dtype, sure=0 if name in packed else count
            )
            for name, kind in schema.rows.items()
        }
        self.history = backing.allocate("history", (rows,), "uint16") if self.stack > 1 else None
        self.columns = [
            column_of(name, kind, self.rows[name], tables)
            for name, kind in schema.observations.items()
        ]
        self.cold: list[CompressedRows] = []
        if compress:
            for column in self.columns:
                if isinstance(column, FrameColumn):
                    column.cold = CompressedRows(column.rows, self.arena.first_row, compress)
                    self.cold.append(column.cold)
        self.step_columns = list(self.steps.values())
        self.actions, self.rewards = self.step_columns[:2]
        # what `quick` is for: one field, small enough to be compared as bytes
        first = self.columns[0]
        self.quick_rows = first.rows
        self.quick_bytes = self.stack * first.rows[0].nbytes
        self.is_quick = len(self.columns) == 1 and len(self.steps) == 2
        self.is_quick &= self.quick_bytes <= QUICK_BYTES
        is_stacked = isinstance(first, FrameColumn) and first.axis == 0 and first.stack > 1
        self.is_quick &= type(first) is PlainColumn or is_stacked
        self.guard: OverwriteGuard | None = None
        self.loader: RowLoader | None = None

    @property
    def size(self) -> int:
        if self.n_envs == 1:
            return self.streams[0].added - self.streams[0].oldest
        return sum(stream.added - stream.oldest for stream in self.streams)

    # ---- one transition ------------------------------------------------------------------------

    def add(
        self, env: int, values: Values, following: Values, steps: Sequence[Any], flags: int
    ) -> int:
        """Store one transition of one environment; returns where."""
        stream = self.streams[env]
        continues = stream.is_open and self._continues(stream, values)
        is_tied = self.stack == 1 or self._follows(values, following)
        if continues:
            flags |= CONTINUES
            # at the end of its rows, a stream that continues elsewhere starts a new head
            continues = stream.head < stream.end or not is_tied or not self._grow(stream, 1)
        if continues and is_tied:
            start = stream.head - 1
            self._put_next(stream, following)
        else:
            flags |= self._how_apart(values, following, is_tied)
            start = self._put_apart(stream, values, following, flags, not continues)
        index = self._claim(stream, env, start)
        self.starts[index] = start
        self.flags[index] = flags
        for column, step in zip(self.step_columns, steps, strict=True):
            column[index] = step
        stream.is_open = not flags & (TERMINATED | TRUNCATED)
        stream.quick_end = 0
        return index

    def _how_apart(self, values: Values, following: Values, is_tied: bool) -> int:
        """The flag of a next observation that is not the following row."""
        if is_tied:
            return 0
        if all(map(same_bytes, values, following)):
            return REPEATS
        return JUMPS_STACK if self._history_of(following) == FULL_HISTORY else JUMPS

    def _put_apart(
        self, stream: Stream, values: Values, following: Values, flags: int, is_head: bool
    ) -> int:
        """Write a next observation that is not the following row; returns the observation's row."""
        tail = 0 if flags & REPEATS else self.stack if flags & JUMPS_STACK else 1
        head = self._history_of(values) if is_head else FULL_HISTORY
        rows = tail + (self._rows_of(head) if is_head else 0)
        if stream.head + rows > stream.end and self._grow(stream, rows) and not is_head:
            is_head, head = True, self._history_of(values)
        if is_head:
            self._put_head(stream, values, head)
        start = stream.head - 1
        if flags & (JUMPS | JUMPS_STACK):
            self._put_head(stream, following, self._history_of(following))
        elif not flags & REPEATS:
            self._put_next(stream, following)
        return start

    def _continues(self, stream: Stream, values: Values) -> bool:
        row = stream.head - 1
        history = FULL_HISTORY if self.history is None else int(self.history[row])
        for column, value in zip(self.columns, values, strict=True):
            if not column.same(row, value, history):
                return False
        return True

    def _follows(self, values: Values, following: Values) -> bool:
        return all(
            column.follows(value, later)
            for column, value, later in zip(self.columns, values, following, strict=True)
        )

    def _history_of(self, values: Values) -> int:
        """The history of a new head: that of one row, or FULL_HISTORY for a stack."""
        if self.history is None:
            return FULL_HISTORY
        found = {column.padding(v) for column, v in zip(self.columns, values, strict=True)}
        found.discard(FULL_HISTORY)  # fields without a stack fit any history
        padding = found.pop() if len(found) == 1 else None
        return FULL_HISTORY if padding is None else padding

    def _rows_of(self, history: int) -> int:
        return self.stack if history == FULL_HISTORY else 1

    def _put_head(self, stream: Stream, values: Values, history: int) -> None:
        """Write an observation that shares no rows with what was before."""
        row = stream.head + self._rows_of(history) - 1
        if self.history is not None:
            self.history[row] = history
        for column, value in zip(self.columns, values, strict=True):
            if history == FULL_HISTORY:
                column.put_head(row, value)
            else:
                column.put(row, value)
        stream.head = row + 1

    def _put_next(self, stream: Stream, following: Values) -> None:
        row = stream.head
        for column, value in zip(self.columns, following, strict=True):
            column.put(row, value)
        if self.history is not None:
            before = int(self.history[row - 1])
            self.history[row] = before + ((before & FULL_HISTORY) != FULL_HISTORY)
        stream.head = row + 1

    def _claim(self, stream: Stream, env: int, start: int) -> int:
        """The place of the stream's next transition; the oldest makes room for it."""
        added = stream.added
        index = (added % self.slots) * self.n_envs + env
        if self.guard is not None:
            self.guard.before_steps(index, index + 1)
        if start >= stream.next_cross:
            self._close(stream, start, added)
        stream.added = added + 1
        if added - stream.oldest >= self.slots:
            stream.oldest = added + 1 - self.slots
            if stream.oldest >= stream.next_release:
                self.arena.release(stream)
        return index

    def _close(self, stream: Stream, start: int, abs_index: int) -> None:
        """Chunks that are read only from now on are compressed, if that was wanted."""
        before = len(stream.closed_chunks)
        self.arena.close_crossed(stream, start, abs_index)
        if self.cold:
            self._seal_closed(stream, before)

    def _seal_closed(self, stream: Stream, before: int) -> None:
        for chunk, _ in list(stream.closed_chunks)[before:]:
            self.seal(chunk)

    def seal(self, chunk: int) -> None:
        begin, end = self.arena.span(chunk)
        if self.guard is not None:
            self.guard.before_rows(begin, end)
        for cold in self.cold:
            cold.seal(begin, end)

    def _grow(self, stream: Stream, needed: int) -> bool:
        """Own `needed` contiguous rows from the head on; True if the head moved elsewhere."""
        has_moved = False
        while stream.head + needed > stream.end:
            before = len(stream.closed_chunks)
            is_neighbor = self.arena.extend(stream)
            if is_neighbor is None:
                self.arena.make_room(stream)
                continue
            if self.cold:
                self._seal_closed(stream, before)
            has_moved |= not is_neighbor
            if self.loader is not None:
                self.loader.need_span("rows", stream.end - self.arena.chunk_rows, stream.end)
            if self.guard is not None:
                self.guard.before_rows(stream.end - self.arena.chunk_rows, stream.end)
            for cold in self.cold:
                cold.forget(stream.end - self.arena.chunk_rows, stream.end)
        return has_moved

    # ---- many transitions of one environment ---------------------------------------------------

    def extend(
        self, env: int, values: Values, following: Values, steps: Sequence[Array], flags: Array
    ) -> None:
        """Store consecutive transitions; values hold one more axis in front."""
        begin = 0
        for last in flags.nonzero()[0].tolist():
            self._extend_episode(env, values, following, steps, flags, begin, last + 1)
            begin = last + 1
        if begin < len(flags):
            self._extend_episode(env, values, following, steps, flags, begin, len(flags))

    def _extend_episode(
        self, env: int, values: Values, following: Values, steps: Sequence[Array], flags: Array,
        begin: int, end: int,
    ) -> None:  # fmt: skip
        here, there = _parts(values, begin, end), _parts(following, begin, end)
        mine, ends = _parts(steps, begin, end), flags[begin:end]
        run = count = end - begin
        if not self._is_linked(here, there):
            run = count - 1 if self.stack > 1 else 0  # the last may share nothing with it
            first, later, taken = (_parts(found, 0, run) for found in (here, there, mine))
            if not run or not self._is_linked(first, later):
                run = 0
            else:
                self._put_runs(env, first, later, taken, ends[:run])
        else:
            self._put_runs(env, here, there, mine, ends)
        for at in range(run, count):
            self.add(
                env, [v[at] for v in here], [v[at] for v in there], [s[at] for s in mine],
                int(ends[at]),
            )  # fmt: skip

    def _is_linked(self, values: Values, following: Values) -> bool:
        for column, value, later in zip(self.columns, values, following, strict=True):
            if not column.is_linked(value, later):
                return False
        return True

    def _put_runs(
        self, env: int, values: Values, following: Values, steps: Sequence[Array], flags: Array
    ) -> None:
        taken = self._put_run(env, values, following, steps, flags)
        while taken < len(flags):
            values, following, steps = (
                _parts(found, taken, None) for found in (values, following, steps)
            )
            flags = flags[taken:]
            taken = self._put_run(env, values, following, steps, flags)

    def _put_run(
        self, env: int, values: Values, following: Values, steps: Sequence[Array], flags: Array
    ) -> int:
        """Store a stretch in which every observation is the next observation of the one before.

        As much of it as there are contiguous rows for; returns how much that was.
        """
        stream, count = self.streams[env], min(len(flags), self.slots)
        first = [value[0] for value in values]
        continues = stream.is_open and self._continues(stream, first)
        self.make_way(stream, count)
        is_head, head = not continues, FULL_HISTORY if continues else self._history_of(first)
        rows = self._rows_of(head) if is_head else 0
        if stream.head + rows + 1 > stream.end and self._grow(stream, rows + 1) and not is_head:
            is_head, head = True, self._history_of(first)
            rows = self._rows_of(head)
        while stream.head + rows + count > stream.end and self.arena.has_neighbor(stream):
            self._grow(stream, stream.end - stream.head + 1)
        if is_head:
            self._put_head(stream, first, head)
        if count > stream.end - stream.head or count < len(flags):
            count = min(count, stream.end - stream.head)
            following, steps = _parts(following, 0, count), _parts(steps, 0, count)
            flags = flags[:count]
        start = stream.head - 1
        for column, later in zip(self.columns, following, strict=True):
            column.put_run(start + 1, later)
        if self.history is not None:
            ages = int(self.history[start]) + np.arange(1, count + 1)
            full = int(self.history[start]) | FULL_HISTORY
            self.history[start + 1 : start + 1 + count] = np.minimum(ages, full)
        stream.head += count
        is_end = flags[-1]
        self._claim_run(stream, env, start, flags, steps)
        if not continues:
            self.flags[(stream.added - count) % self.slots * self.n_envs + env] ^= CONTINUES
        stream.is_open = not is_end
        stream.quick_end = 0
        return count

    def make_way(self, stream: Stream, count: int) -> None:
        """Forget what the next `count` transitions replace, so that its rows can be reused."""
        oldest = stream.added + count - self.slots
        if oldest > stream.oldest:
            stream.oldest = min(oldest, stream.added)
            if stream.oldest >= stream.next_release:
                self.arena.release(stream)

    def close_run(self, stream: Stream, start: int, count: int) -> None:
        """Close chunks that the stream's next `count` transitions, from `start` on, leave."""
        while start + count - 1 >= stream.next_cross:
            reached = max(start, stream.next_cross)
            self._close(stream, reached, stream.added + reached - start)

    def _claim_run(
        self, stream: Stream, env: int, start: int, flags: Array, steps: Sequence[Array]
    ) -> None:
        added, count = stream.added, len(flags)
        self.close_run(stream, start, count)
        stream.added = added + count
        if stream.added - stream.oldest > self.slots:
            stream.oldest = stream.added - self.slots
            if stream.oldest >= stream.next_release:
                self.arena.release(stream)
        slot = added % self.slots
        size = min(count, self.slots - slot)
        self._put_steps(slot, env, start, flags[:size], steps)
        if size < count:  # the ring's end lies between
            rest = _parts(steps, size, count)
            self._put_steps(0, env, start + size, flags[size:], rest)

    def _put_steps(
        self, slot: int, env: int, start: int, flags: Array, steps: Sequence[Array]
    ) -> None:
        size, n_envs = len(flags), self.n_envs
        if self.guard is not None:
            self.guard.before_steps(slot * n_envs, (slot + size) * n_envs)
        place = slice(slot * n_envs + env, (slot + size) * n_envs, n_envs)
        self.starts[place] = np.arange(start, start + size, dtype=np.int32)
        np.bitwise_or(flags, _CONTINUES, self.flags[place])
        for column, step in zip(self.step_columns, steps, strict=True):
            copy_into(column[place], step if len(step) == size else step[:size])

    # ---- one step of every environment ---------------------------------------------------------

    def add_step(
        self, values: Values, following: Values, steps: Sequence[Array], flags: Array
    ) -> None:
        """Store one transition of every environment; values count environments in front."""
        added = self.streams[0].added
        if self.stack > 1 or any(stream.added != added for stream in self.streams):
            for env in range(self.n_envs):
                self.add(
                    env, [v[env] for v in values], [v[env] for v in following],
                    [column[env] for column in steps], int(flags[env]),
                )  # fmt: skip
            return
        joined = np.array(flags)
        is_new = self._new_heads(values, joined)
        short = [env for env, stream in enumerate(self.streams) if stream.head + 2 > stream.end]
        for env in short:
            is_new[env] |= self._grow(self.streams[env], 2)
        if short:  # what one was given may have been another's
            is_new |= [not stream.is_open for stream in self.streams]
        heads, begins = is_new.tolist(), []
        for stream, is_head in zip(self.streams, heads, strict=True):
            start = stream.head if is_head else stream.head - 1
            stream.head = start + 2
            begins.append(start)
        starts = np.array(begins)
        for column, value, later in zip(self.columns, values, following, strict=True):
            if True in heads:
                column.put_each(starts[is_new], value[is_new])
            column.put_each(starts + 1, later)
        for env, ends in enumerate(flags.tolist()):
            stream = self.streams[env]
            self._claim(stream, env, begins[env])
            stream.is_open, stream.quick_end = not ends & (TERMINATED | TRUNCATED), 0
        index = added % self.slots * self.n_envs
        place_of_all = slice(index, index + self.n_envs)
        self.starts[place_of_all] = starts
        self.flags[place_of_all] = joined
        for target, step in zip(self.step_columns, steps, strict=True):
            target[place_of_all] = step

    def _new_heads(self, values: Values, flags: Array) -> Array:
        """Which environments need a new head; the others are flagged as continuing."""
        is_new = np.ones(self.n_envs, bool)
        for env, stream in enumerate(self.streams):
            if stream.is_open and all(
                column.same(stream.head - 1, value[env], FULL_HISTORY)
                for column, value in zip(self.columns, values, strict=True)
            ):
                is_new[env] = False
                flags[env] |= CONTINUES
        return is_new

    # ---- reading -------------------------------------------------------------------------------

    def picks(self, index: Array, flags: Array, last: Array | None = None) -> Picks:
        """The rows of transitions: observations of `index`, next observations of `last`.

        The flags are those of `last`, or of `index` if that is the same.
        """
        starts = self.starts.take(index)
        if last is None and self.stack == 1:
            self._load(starts, starts)
            return Picks(starts, None, None)
        last = index if last is None else last
        ends = starts if last is index else self.starts.take(last)
        self._load(starts, ends)
        is_apart = int(np.bitwise_or.reduce(flags)) & (JUMPS | JUMPS_STACK | REPEATS)
        if last is index and not is_apart:
            return Picks(starts, None, self.history)
        following = ends + rows_ahead(flags, self.stack)
        return Picks(starts, following, self.history)

    def _load(self, starts: Array, ends: Array) -> None:
        if self.loader is None:
            return
        for rows in (starts, ends) if ends is not starts else (starts,):
            self.loader.need("rows", rows - (self.stack - 1), rows + self.stack)
        if self.loader.is_done:
            self.loader = None

    def valid(self) -> tuple[list[int], list[int]]:
        """Oldest abs and number of transitions for each stream."""
        oldest = [stream.oldest for stream in self.streams]
        return oldest, [s.added - s.oldest for s in self.streams]

    def is_stored(self, index: Array) -> Array:
        """Whether each place holds a transition that was not forgotten."""
        env, slot = index % self.n_envs, index // self.n_envs
        oldest, sizes = (np.asarray(found) for found in self.valid())
        found: Array = (slot - oldest[env]) % self.slots < sizes[env]
        return found


def _parts(arrays: Sequence[Array], begin: int, end: int | None) -> list[Array]:
    return [array[begin:end] for array in arrays]
