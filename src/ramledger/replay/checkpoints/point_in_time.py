"""The state of a buffer that a save writes, protected from being overwritten meanwhile."""

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ramledger.replay.checkpoints.segment import BLOCK_BYTES, Read
from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.store import Store
from ramledger.replay.storage.stream_rows import RowChunks, merged

if TYPE_CHECKING:
    from ramledger.replay.buffer import ReplayBuffer

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """Items of a group that become one block."""

    group: str
    begin: int
    end: int


class Pending:
    """Pieces still to be written; a writer that would overwrite one waits until it is."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._changed = threading.Condition()
        self._is_over = False
        self._pieces: dict[str, list[Piece]] = {"rows": [], "steps": []}
        for piece in sorted(pieces, key=lambda found: found.begin):
            self._pieces.setdefault(piece.group, []).append(piece)
        self._begins = {name: [p.begin for p in found] for name, found in self._pieces.items()}
        self._done: set[tuple[str, int]] = set()

    def before_steps(self, begin: int, end: int) -> None:
        self._wait("steps", begin, end)

    def before_rows(self, begin: int, end: int) -> None:
        self._wait("rows", begin, end)

    def _wait(self, group: str, begin: int, end: int) -> None:
        if not self._is_pending(group, begin, end):
            return
        with self._changed:
            while self._is_pending(group, begin, end):
                self._changed.wait()

    def _is_pending(self, group: str, begin: int, end: int) -> bool:
        if self._is_over:
            return False
        pieces = self._pieces[group]
        at = max(bisect_right(self._begins[group], begin) - 1, 0)
        while at < len(pieces) and pieces[at].begin < end:
            if pieces[at].end > begin and (group, pieces[at].begin) not in self._done:
                return True
            at += 1
        return False

    def finished(self, group: str, begin: int) -> None:
        with self._changed:
            self._done.add((group, begin))
            self._changed.notify_all()

    def over(self) -> None:
        """The save is over, complete or not: stop making writers wait."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class PointInTime:
    """A consistent state: small data by value, arrays by the pieces that are not written yet."""

    pieces: list[Piece]
    columns: dict[str, list[Read]]
    state: dict[str, Any]
    size_bytes: int
    live_rows: list[Span]  # all that the checkpoint needs, saved before or not

    def item_bytes(self, group: str) -> int:
        return sum(_sizes(self.columns[group]))


def take_point_in_time(buffer: "ReplayBuffer", everything: bool) -> PointInTime:
    """What changed since the last save, or everything; called with the buffer's lock held."""
    store = buffer.store
    live = live_rows(store.arena)
    # rows that no transition reads may be overwritten at once, without asking
    rows = common(store.arena.take_unsaved(), live)
    steps = _unsaved_steps(store)
    if everything:
        rows = live
        steps = live_steps(store.arena, store.slots)
    columns = columns_of(buffer)
    spans = {"rows": rows, "steps": steps}
    leaves = None
    if buffer.tree is not None:
        # priorities change everywhere between saves: they are copied, 8 bytes a transition
        leaves = buffer.tree.leaves.copy()
        columns["leaves"] = [reader(leaves)]
        spans["leaves"] = [(0, len(leaves))]
    pieces = [
        piece
        for group, found in spans.items()
        for piece in _pieces(group, found, _item_bytes(columns[group]))
    ]
    size = sum((p.end - p.begin) * sum(_sizes(columns[p.group])) for p in pieces)
    return PointInTime(pieces, columns, buffer.state(), size, live)


def columns_of(buffer: "ReplayBuffer") -> dict[str, list[Read]]:
    """How each column of each group is read, in the order of its blocks."""
    cold = {id(found.rows): found.read for found in buffer.store.cold}
    return {
        group: [cold.get(id(array)) or reader(array) for array in arrays]
        for group, arrays in arrays_of(buffer).items()
    }


def arrays_of(buffer: "ReplayBuffer") -> dict[str, list[Array]]:
    """The columns of each group, in the order of its blocks."""
    store = buffer.store
    rows = list(store.rows.values())
    if store.history is not None:
        rows.append(store.history)
    found = {"rows": rows, "steps": [store.starts, store.flags, *store.steps.values()]}
    if buffer.tree is not None:
        found["leaves"] = [buffer.tree.leaves]
    return found


def reader(array: Array) -> Read:
    def read(begin: int, end: int) -> Array:
        return array[begin:end]

    return read


def _sizes(columns: list[Read]) -> list[int]:
    return [read(0, 1).nbytes for read in columns]


def _item_bytes(columns: list[Read]) -> int:
    return max(1, *_sizes(columns))


def _pieces(group: str, spans: list[Span], item_bytes: int) -> Iterator[Piece]:
    step = max(1, BLOCK_BYTES // item_bytes)
    for begin, end in spans:
        for at in range(begin, end, step):
            yield Piece(group, at, min(at + step, end))


def _unsaved_steps(store: Store) -> list[Span]:
    spans: list[Span] = []
    for stream in store.streams:
        count = min(stream.added - stream.saved, store.slots)
        first = (stream.added - count) % store.slots
        last = first + count
        spans += [(first, min(last, store.slots)), (0, max(last - store.slots, 0))]
        stream.saved = stream.added
    return _places(store.n_envs, spans)


def live_steps(arena: RowChunks, slots: int) -> list[Span]:
    """Places of transitions that were ever written."""
    spans = [(0, min(stream.added, slots)) for stream in arena.streams]
    return _places(len(arena.streams), spans)


def _places(n_envs: int, slots: list[Span]) -> list[Span]:
    return [(a * n_envs, b * n_envs) for a, b in merged(slots)]


def live_rows(arena: RowChunks) -> list[Span]:
    """Rows that some transition reads: chunks in use, up to where they are written.

    What a stream owns from its head on is written without asking a save that is in progress.
    """
    spans: list[Span] = []
    for stream in arena.streams:
        for chunk, _ in (*stream.closed_chunks, *stream.open_chunks):
            begin, end = arena.span(chunk)
            if begin < stream.end and end > stream.head:
                end = max(begin, stream.head)
            spans.append((begin, end))
    return merged(spans)


def common(some: list[Span], others: list[Span]) -> list[Span]:
    """What both cover; spans are sorted and disjoint."""
    found: list[Span] = []
    at = 0
    for begin, end in some:
        while at < len(others) and others[at][1] <= begin:
            at += 1
        for first, last in others[at:]:
            if first >= end:
                break
            found.append((max(begin, first), min(end, last)))
    return found
