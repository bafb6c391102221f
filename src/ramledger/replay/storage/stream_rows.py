"""Which rows belong to which environment: chunks of one row array, given to streams.

A stream writes rows one after the other; a chunk is returned when no stored transition reads it.
Only bookkeeping: nothing here touches the rows.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ramledger.replay.storage.latest_frames import LatestFrames

NEVER = 1 << 62


@dataclass(slots=True, eq=False)
class Stream:
    """The rows of one environment. `abs` counts its transitions since the buffer was made."""

    head: int = 0  # the next row to write
    end: int = 0  # where the contiguous rows it owns end
    is_open: bool = False  # whether row head - 1 is its latest next observation
    added: int = 0  # abs of the next transition
    oldest: int = 0  # abs of the oldest one still stored
    # chunks that new transitions may read, each with the first start that no longer reads it
    open_chunks: deque[tuple[int, int]] = field(default_factory=deque)
    # chunks done with, each with the abs of the first transition that does not read it
    closed_chunks: deque[tuple[int, int]] = field(default_factory=deque)
    # rows written since the last checkpoint: whole spans, and where the present one begins
    unsaved: list[tuple[int, int]] = field(default_factory=list)
    unsaved_from: int = 0
    # up to this head, the next transition may be added the short way; 0: the long way comes first
    quick_end: int = 0
    latest: bytes = b""  # its latest next observation once more, if it is a single row
    tail: "LatestFrames | None" = None  # or its latest frames, if they are stacked
    saved: int = 0  # abs of the first transition that is in no checkpoint
    next_cross: int = NEVER  # open_chunks[0]'s start
    next_release: int = NEVER  # closed_chunks[0]'s abs


class RowChunks:
    """Gives chunks of rows to streams, adjacent ones first, so that a stream stays contiguous."""

    def __init__(self, chunks: int, chunk_rows: int, stack: int, streams: int) -> None:
        self.chunks = chunks
        self.chunk_rows = chunk_rows
        self.stack = stack
        # windows of the first rows may reach back before the first chunk
        self.first_row = stack - 1
        self.free: set[int] = set()  # used before
        self.high_chunk = 0  # chunks from here on were never used
        self.streams = [Stream() for _ in range(streams)]
        # (stream, from abs, to abs) dropped for lack of rows, until the caller reads it
        self.forgotten: list[tuple[int, int, int]] = []

    @property
    def rows(self) -> int:
        return self.first_row + self.chunks * self.chunk_rows

    def extend(self, stream: Stream) -> bool | None:
        """Give one more chunk: True if it follows the last one, None if none is free."""
        if not self.free and self.high_chunk == self.chunks:
            return None
        has_neighbor = self.has_neighbor(stream)
        if has_neighbor:
            chunk = self._after(stream)
        else:
            chunk = min(self.free) if self.free else self.high_chunk
        self.free.discard(chunk)
        self.high_chunk = max(self.high_chunk, chunk + 1)
        begin = self.first_row + chunk * self.chunk_rows
        if has_neighbor:
            last, _ = stream.open_chunks.pop()
            # windows reach back stack - 1 rows
            stream.open_chunks.append((last, begin + self.stack - 1))
        else:
            self._leave(stream)
            stream.head = stream.unsaved_from = begin
        stream.open_chunks.append((chunk, NEVER))
        stream.end = begin + self.chunk_rows
        stream.next_cross = stream.open_chunks[0][1]
        return has_neighbor

    def _leave(self, stream: Stream) -> None:
        """Nothing that is added from now on reads a row before: every open chunk is closed."""
        if stream.head > stream.unsaved_from:
            stream.unsaved.append((stream.unsaved_from, stream.head))
        stream.closed_chunks.extend((chunk, stream.added) for chunk, _ in stream.open_chunks)
        stream.open_chunks.clear()
        stream.head = stream.end = stream.unsaved_from = 0
        _update_marks(stream)

    def span(self, chunk: int) -> tuple[int, int]:
        """First row of a chunk, and the first after it."""
        begin = self.first_row + chunk * self.chunk_rows
        return begin, begin + self.chunk_rows

    def _after(self, stream: Stream) -> int:
        return (stream.end - self.first_row) // self.chunk_rows

    def has_neighbor(self, stream: Stream) -> bool:
        """Whether the next chunk follows the last one.

        One that was never used is taken last: memory is touched no further than needed.
        """
        if stream.end == 0:
            return False
        wanted = self._after(stream)
        return wanted in self.free or (wanted == self.high_chunk < self.chunks and not self.free)

    def close_crossed(self, stream: Stream, start: int, abs_index: int) -> None:
        """Transition `abs_index` starts at row `start`: chunks it no longer reads are closed."""
        while stream.open_chunks and start >= stream.open_chunks[0][1]:
            chunk, _ = stream.open_chunks.popleft()
            stream.closed_chunks.append((chunk, abs_index))
        stream.next_cross = stream.open_chunks[0][1] if stream.open_chunks else NEVER
        stream.next_release = stream.closed_chunks[0][1] if stream.closed_chunks else NEVER

    def release(self, stream: Stream) -> None:
        """Take back the chunks that no transition from `stream.oldest` on reads."""
        while stream.closed_chunks and stream.closed_chunks[0][1] <= stream.oldest:
            self.free.add(stream.closed_chunks.popleft()[0])
        stream.next_release = stream.closed_chunks[0][1] if stream.closed_chunks else NEVER

    def make_room(self, asking: Stream) -> None:
        """Forget the oldest transitions of the stream that holds most, until a chunk is free."""
        holding = max(self.streams, key=lambda stream: len(stream.closed_chunks))
        if not holding.closed_chunks:
            holding = asking
            if asking.open_chunks:
                self._leave(asking)
            else:
                holding = max(self.streams, key=lambda stream: len(stream.open_chunks))
                self._leave_all_but_last(holding)
        oldest = max(holding.oldest, holding.closed_chunks[0][1])
        self.forgotten.append((self.streams.index(holding), holding.oldest, oldest))
        holding.oldest = oldest
        self.release(holding)

    def _leave_all_but_last(self, stream: Stream) -> None:
        """Close all open chunks of a stream except the last, where it starts a new head."""
        last, end = stream.open_chunks.pop(), stream.end
        head = max(stream.head, self.span(last[0])[0])
        self._leave(stream)
        stream.open_chunks.append(last)
        stream.head = stream.unsaved_from = head
        stream.end = end
        stream.is_open, stream.quick_end = False, 0
        _update_marks(stream)

    def take_unsaved(self) -> list[tuple[int, int]]:
        """Spans of rows written since the last call, sorted and disjoint."""
        spans: list[tuple[int, int]] = []
        for stream in self.streams:
            spans += stream.unsaved
            if stream.head > stream.unsaved_from:
                spans.append((stream.unsaved_from, stream.head))
            stream.unsaved, stream.unsaved_from = [], stream.head
        return merged(spans)

    def to_dict(self) -> dict[str, Any]:
        """The whole state as plain data."""
        return {
            "high_chunk": self.high_chunk,
            "free": sorted(self.free),
            "streams": [
                {
                    "head": stream.head,
                    "end": stream.end,
                    "is_open": stream.is_open,
                    "added": stream.added,
                    "oldest": stream.oldest,
                    "open_chunks": [list(pair) for pair in stream.open_chunks],
                    "closed_chunks": [list(pair) for pair in stream.closed_chunks],
                }
                for stream in self.streams
            ],
        }

    def restore(self, found: dict[str, Any]) -> None:
        """Take over a state from `to_dict`."""
        self.high_chunk = found["high_chunk"]
        self.free = set(found["free"])
        for stream, state in zip(self.streams, found["streams"], strict=True):
            stream.head, stream.end = state["head"], state["end"]
            stream.unsaved, stream.unsaved_from = [], stream.head
            stream.saved = state["added"]
            stream.is_open = state["is_open"]
            stream.added, stream.oldest = state["added"], state["oldest"]
            stream.open_chunks = deque((a, b) for a, b in state["open_chunks"])
            stream.closed_chunks = deque((a, b) for a, b in state["closed_chunks"])
            self._close_left(stream)

    def _close_left(self, stream: Stream) -> None:
        """Close open chunks that the stream's present one does not follow.

        Earlier versions saved such chunks as open.
        """
        expected = self._after(stream)
        run: deque[tuple[int, int]] = deque()
        while stream.open_chunks and stream.open_chunks[-1][0] == expected - 1:
            run.appendleft(stream.open_chunks.pop())
            expected -= 1
        stream.closed_chunks.extend((chunk, stream.added) for chunk, _ in stream.open_chunks)
        stream.open_chunks = run
        _update_marks(stream)


def _update_marks(stream: Stream) -> None:
    """Update where the next chunk is closed and where the next one is returned."""
    stream.next_cross = stream.open_chunks[0][1] if stream.open_chunks else NEVER
    stream.next_release = stream.closed_chunks[0][1] if stream.closed_chunks else NEVER


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open spans, sorted, those that touch joined."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > begin:
            found.append((begin, end))
    return found
