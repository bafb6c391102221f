"""How many transitions and rows a capacity or a budget gives, before anything is allocated."""

from dataclasses import dataclass

from ramledger.errors import ConfigError, OverBudgetError
from ramledger.replay.cold import GROUP_ROWS
from ramledger.replay.schema import Schema
from ramledger.units import format_bytes, parse_bytes

CHUNK_BYTES = 4 << 20  # rows are handed out in chunks of at most this, where stacks allow it
CHUNKS_A_STREAM = 512  # and in so many that the unused part of the last one hardly counts
# small rows are handed out in larger chunks, so that adding many is one copy
SMALL_CHUNK_BYTES = 256 << 10
FEWEST_CHUNKS = 128
ROWS_A_TRANSITION = 2.0  # reserved, not touched: what the shortest episodes of one step need
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
        raise ConfigError(f"{n_envs} environments", hint="n_envs is at least 1")
    if capacity is None and budget is None:
        raise ConfigError(
            "neither capacity nor budget", hint='give budget="4 GiB" or capacity=10**6'
        )
    if capacity is not None and capacity < n_envs:
        raise ConfigError(
            f"a capacity of {capacity} for {n_envs} environments",
            hint="capacity is at least one transition for each environment",
        )
    rows_each = _rows_each(schema, episode_length)
    if budget is None:
        assert capacity is not None
        found = _layout(schema, capacity, n_envs, rows_each, priority_bytes)
    else:
        found = _within(schema, capacity, parse_bytes(budget), n_envs, rows_each, priority_bytes)
    if found.chunks * found.chunk_rows + schema.stack > MAX_ROWS:
        raise ConfigError(
            f"{found.transitions} transitions need more than {MAX_ROWS} rows",
            hint="give a smaller capacity or budget",
        )
    return found


def _rows_each(schema: Schema, episode_length: float | None) -> float:
    if episode_length is None:
        return ROWS_A_TRANSITION
    if episode_length < 1:
        raise ConfigError(
            f"episodes of {episode_length} steps", hint="episode_length is at least 1"
        )
    return 1 + schema.stack / episode_length


def _layout(
    schema: Schema, transitions: int, n_envs: int, rows_each: float, priority_bytes: int
) -> Layout:
    slots = transitions // n_envs
    row_bytes = max(schema.row_bytes, 1)
    wanted = min(CHUNK_BYTES // row_bytes, slots // CHUNKS_A_STREAM)
    wanted = max(wanted, min(SMALL_CHUNK_BYTES // row_bytes, slots // FEWEST_CHUNKS))
    # an observation and a next observation with nothing in common fit into one chunk
    chunk_rows = max(wanted, 2 * schema.stack + 2, MIN_CHUNK_ROWS)
    chunk_rows = -(-chunk_rows // GROUP_ROWS) * GROUP_ROWS  # whole groups become cold
    # a stream's last chunk is partly empty, its first partly outdated
    chunks = int(-(-int(slots * n_envs * rows_each) // chunk_rows)) + 2 * n_envs + 2
    rows = chunks * chunk_rows + schema.stack - 1
    reserved = rows * schema.row_bytes + slots * n_envs * (schema.step_bytes + priority_bytes)
    return Layout(slots * n_envs, n_envs, chunks, chunk_rows, reserved)


def _within(
    schema: Schema,
    capacity: int | None,
    budget_bytes: int,
    n_envs: int,
    rows_each: float,
    priority_bytes: int,
) -> Layout:
    """The largest layout that fits, with room for one more row in 32 transitions if not told."""
    rows_each = min(rows_each, 1 + 1 / 32) if rows_each == ROWS_A_TRANSITION else rows_each
    least = _layout(schema, n_envs, n_envs, rows_each, priority_bytes)
    if least.reserved_bytes > budget_bytes:
        raise OverBudgetError(
            f"a budget of {format_bytes(budget_bytes)} does not hold the smallest buffer of "
            f"{format_bytes(least.reserved_bytes)}",
            needed_bytes=least.reserved_bytes,
            limit_bytes=budget_bytes,
            hint="raise the budget, or make observations smaller",
        )
    low, high = 1, budget_bytes // max(schema.step_bytes, 1) // n_envs + 1
    if capacity is not None:
        high = min(high, capacity // n_envs + 1)
    while high - low > 1:
        middle = (low + high) // 2
        layout = _layout(schema, middle * n_envs, n_envs, rows_each, priority_bytes)
        low, high = (middle, high) if layout.reserved_bytes <= budget_bytes else (low, middle)
    return _layout(schema, low * n_envs, n_envs, rows_each, priority_bytes)
