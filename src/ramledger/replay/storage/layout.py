"""How many transitions and rows a capacity or a budget gives, before anything is allocated."""

from dataclasses import dataclass

from ramledger.errors import ConfigError, OverBudgetError
from ramledger.replay.schema import Schema
from ramledger.replay.storage.compressed_rows import GROUP_ROWS
from ramledger.units import format_bytes, parse_bytes

CHUNK_BYTES = 4 << 20  # rows are handed out in chunks of at most this, where stacks allow it
CHUNKS_A_STREAM = 512  # and in so many that the unused part of the last one hardly counts
# small rows are handed out in larger chunks, so that adding many is one copy
SMALL_CHUNK_BYTES = 256 << 10
FEWEST_CHUNKS = 128
FEW_CHUNKS = 64  # the same where stacks are long
ROWS_A_TRANSITION = 2.0  # reserved, not touched: what the shortest episodes of one step need
# where stacks hold real history, rows are reserved for episodes of so many steps on average
SHORT_EPISODE = 30
STACKS_A_CHUNK = 8  # a stack that does not fit the rest of a chunk leaves that empty
MIN_CHUNK_ROWS = 16
MAX_ROWS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """The sizes of a buffer's arrays."""

    transitions: int  # in all streams together
    streams: int
    chunks: int
    chunk_rows: int
    reserved_bytes: int  # what it takes at most

    @property
    def slots(self) -> int:
        """Transitions of one stream."""
        return self.transitions // self.streams

    def least_transitions(self, stack: int) -> int:
        """So many of the latest transitions are stored, whatever they have in common."""
        each = self.chunk_rows // (2 * stack)  # each is two stacks of rows at most
        return max(1, min(self.transitions, (self.chunks - _spare_chunks(self.streams)) * each))

    def check(self, schema: Schema) -> None:
        """Refuse sizes that leave a stream without rows."""
        enough = self.streams > 0 and self.transitions >= self.streams
        enough = enough and self.chunk_rows >= 2 * schema.stack
        enough = enough and self.chunk_rows % GROUP_ROWS == 0
        if not enough or self.chunks < 2 * self.streams + 1:
            raise ConfigError(
                f"{self.chunks} chunks of {self.chunk_rows} rows are too few for {self.streams} "
                f"environments and stacks of {schema.stack}",
                hint="give a capacity or a budget instead of a layout",
            )


def layout_of(
    schema: Schema,
    capacity: int | None,
    budget: str | int | None,
    n_envs: int,
    episode_length: float | None,
    priority_bytes: int = 0,
) -> Layout:
    """The layout for a capacity in transitions, a budget in bytes, or both."""
    if n_envs < 1:
        raise ConfigError(f"n_envs must be at least 1, got {n_envs}")
    if capacity is None and budget is None:
        raise ConfigError(
            "a buffer needs a capacity or a budget", hint='give budget="4 GiB" or capacity=10**6'
        )
    if capacity is not None and capacity < n_envs:
        raise ConfigError(
            f"capacity must be at least {n_envs}, one transition per environment, got {capacity}",
        )
    rows_each = _rows_each(schema, capacity, episode_length)
    wanted = None
    if capacity is not None:
        wanted = found = _layout(schema, capacity, n_envs, rows_each, priority_bytes)
    if budget is not None:
        lean = rows_each if episode_length is not None else min(rows_each, 1 + 1 / 32)
        found = _within(schema, wanted, parse_bytes(budget), n_envs, lean, priority_bytes)
    if found.chunks * found.chunk_rows + schema.stack > MAX_ROWS:
        raise ConfigError(
            f"{found.transitions} transitions need more than {MAX_ROWS} rows",
            hint=f"lower the {'capacity' if budget is None else 'budget'}",
        )
    return found


def _rows_each(schema: Schema, capacity: int | None, episode_length: float | None) -> float:
    """Rows to reserve for a transition."""
    if episode_length is None:
        most = MAX_ROWS / 4 / (capacity or 1)  # chunks that are partly empty need room, too
        return max(ROWS_A_TRANSITION, min(1 + schema.stack / SHORT_EPISODE, most))
    if not episode_length >= 1:
        raise ConfigError(f"episode_length must be at least 1, got {episode_length}")
    return 1 + schema.stack / episode_length


def _spare_chunks(streams: int) -> int:
    """A stream's last chunk is partly empty, its first partly outdated; others just came back."""
    return 2 * streams + 3


def _chunk_rows(schema: Schema, slots: int) -> int:
    row_bytes, stack = max(schema.row_bytes, 1), schema.stack
    wanted = slots // CHUNKS_A_STREAM
    if stack > 1:
        wanted = max(wanted, min(STACKS_A_CHUNK * stack, slots // FEW_CHUNKS))
    wanted = min(CHUNK_BYTES // row_bytes, wanted)
    wanted = max(wanted, min(SMALL_CHUNK_BYTES // row_bytes, slots // FEWEST_CHUNKS))
    # an observation and a next observation with nothing in common fit into one chunk, in two
    # stacks; the rest of a whole number of these would be lost to them
    pairs = max(1, max(wanted, MIN_CHUNK_ROWS) // (2 * stack))
    return -(-2 * stack * pairs // GROUP_ROWS) * GROUP_ROWS  # whole groups become cold


def _layout(
    schema: Schema, transitions: int, n_envs: int, rows_each: float, priority_bytes: int
) -> Layout:
    slots = transitions // n_envs
    chunk_rows = _chunk_rows(schema, slots)
    rows = int(slots * n_envs * rows_each)
    # a stack that is left out at a chunk's end is lost
    chunks = -(-rows // (chunk_rows - schema.stack + 1)) + _spare_chunks(n_envs)
    return _sized(schema, slots * n_envs, n_envs, chunks, chunk_rows, priority_bytes)


def _sized(
    schema: Schema, transitions: int, n_envs: int, chunks: int, chunk_rows: int, priority_bytes: int
) -> Layout:
    rows = chunks * chunk_rows + schema.stack - 1
    reserved = rows * schema.row_bytes + transitions * (schema.step_bytes + priority_bytes)
    return Layout(transitions, n_envs, chunks, chunk_rows, reserved)


def _within(
    schema: Schema,
    wanted: Layout | None,
    budget_bytes: int,
    n_envs: int,
    rows_each: float,
    priority_bytes: int,
) -> Layout:
    """The largest layout that fits, up to the one that is wanted."""
    least = _layout(schema, n_envs, n_envs, rows_each, priority_bytes)
    if least.reserved_bytes > budget_bytes:
        raise OverBudgetError(
            f"a budget of {format_bytes(budget_bytes)} is too small: the smallest buffer needs "
            f"{format_bytes(least.reserved_bytes)}",
            needed_bytes=least.reserved_bytes,
            limit_bytes=budget_bytes,
            hint="raise the budget, or make observations smaller",
        )
    low, high = 1, budget_bytes // max(schema.step_bytes, 1) // n_envs + 1
    if wanted is not None:
        high = min(high, wanted.slots + 1)
    while high - low > 1:
        middle = (low + high) // 2
        layout = _layout(schema, middle * n_envs, n_envs, rows_each, priority_bytes)
        low, high = (middle, high) if layout.reserved_bytes <= budget_bytes else (low, middle)
    found = _layout(schema, low * n_envs, n_envs, rows_each, priority_bytes)
    if wanted is None or low < wanted.slots:
        return found
    # the capacity fits: what is left of the budget are rows for episodes that are shorter
    chunk_bytes = found.chunk_rows * max(schema.row_bytes, 1)
    more = (budget_bytes - found.reserved_bytes) // chunk_bytes
    enough = -(-wanted.chunks * wanted.chunk_rows // found.chunk_rows)
    chunks = max(found.chunks, min(found.chunks + more, enough))
    return _sized(schema, found.transitions, n_envs, chunks, found.chunk_rows, priority_bytes)
