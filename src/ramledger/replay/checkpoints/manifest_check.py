"""Checks a manifest against itself and against the files, before anything is allocated.

A manifest may come from anywhere: later code relies only on what is checked here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from ramledger.durable_files import shown, size_of
from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay.checkpoints.block_codec import CODECS, MOST_GAIN
from ramledger.replay.checkpoints.manifest import Block, Count, Manifest
from ramledger.replay.checkpoints.point_in_time import Span, live_rows, live_steps
from ramledger.replay.checkpoints.random_state import Generator
from ramledger.replay.schema import HISTORY_BYTES, START_BYTES, Schema
from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.layout import MAX_ROWS, Layout
from ramledger.replay.storage.stream_rows import RowChunks, merged
from ramledger.replay.storage.sum_tree import SumTree

LARGEST_ITEM_BYTES = 1 << 44
_LEAF_BYTES = 8

_Finite = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
Kind = TypeVar("Kind")


class _Field(msgspec.Struct):
    """One field of a schema: plain, stacked, or a window of a table."""

    dtype: Annotated[
        str, msgspec.Meta(pattern=r"^(bool|u?int[0-9]{1,2}|(float|complex)[0-9]{2,3})\Z")
    ] = "float32"
    shape: tuple[Count, ...] = ()
    stack: Count = 1
    axis: int = 0
    table: str = ""
    length: Count = 1


class _Priorities(msgspec.Struct, forbid_unknown_fields=True):
    alpha: _Finite
    beta: _Finite
    epsilon: _Finite


class _Settings(msgspec.Struct, forbid_unknown_fields=True):
    n_envs: Count
    layout: dict[str, Count]
    compress: str
    prioritized: _Priorities | None


class _Stream(msgspec.Struct):
    head: Count
    end: Count
    is_open: bool
    added: Count
    oldest: Count
    open_chunks: list[tuple[Count, Count]]
    closed_chunks: list[tuple[Count, Count]]


class _Arena(msgspec.Struct):
    high_chunk: Count
    free: list[Count]
    streams: list[_Stream]


class _State(msgspec.Struct):
    arena: _Arena
    total_added: Count
    rng: Generator
    largest_priority: _Finite | None


@dataclass(frozen=True, slots=True)
class CheckedManifest:
    """A manifest without contradictions: the size of every array, and what it contains."""

    schema: Schema
    layout: Layout
    rows: list[Span]  # that transitions read
    steps: list[Span]
    item_bytes: dict[str, list[int]]  # of each column of a group, in the order of the blocks
    transitions: int  # stored now

    @property
    def loaded_bytes(self) -> int:
        """What is resident once all of it is loaded."""
        sizes = {"rows": self.rows, "steps": self.steps, "leaves": [(0, self.layout.transitions)]}
        found = sum(
            sum(columns) * sum(end - begin for begin, end in sizes[group])
            for group, columns in self.item_bytes.items()
        )
        has_priorities = "leaves" in self.item_bytes  # and sums of them, up to three times as many
        return found + 3 * _LEAF_BYTES * self.layout.transitions * has_priorities


def check_manifest(manifest: Manifest, name: str) -> CheckedManifest:
    """The checked content of a manifest; CheckpointError if it contradicts itself."""
    try:
        schema = _schema(manifest.schema)
        settings = msgspec.convert(manifest.settings, _Settings)
        state = msgspec.convert(manifest.state, _State)
        layout = _layout(settings, schema)
        arena = _arena(state, layout, schema, manifest.state["arena"])
        found = CheckedManifest(
            schema, layout, live_rows(arena), live_steps(arena, layout.slots),
            _item_bytes(schema, settings.prioritized is not None),
            sum(stream.added - stream.oldest for stream in arena.streams),
        )  # fmt: skip
        if (settings.prioritized is None) != (state.largest_priority is None):
            raise ValueError("priorities without settings for them, or the other way round")
        _check_blocks(manifest.blocks, found, arena)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        message = error.message if isinstance(error, ConfigError) else str(error)
        raise CheckpointError(
            f"{name} contradicts itself: {shown(message)}", hint="an earlier save may be intact"
        ) from None
    return found


def check_files(manifest: Manifest, folder: Path) -> None:
    """Every segment is a regular file in the folder and long enough for its blocks."""
    ends: dict[str, int] = {}
    for block in manifest.blocks:
        last = max(part.offset + part.stored_bytes for part in block.parts)
        ends[block.segment] = max(ends.get(block.segment, 0), last)
    for name, end in ends.items():
        if size_of(folder / name) < end:
            raise CheckpointError(
                f"{folder / name} is cut off", hint="an earlier save may be intact"
            )


def _schema(plain: Mapping[str, Any]) -> Schema:
    """The schema; types are checked here and names and ranges where it is made."""
    observation = plain["observation"]
    if not isinstance(observation, dict):
        raise TypeError("the observation is not an object")
    is_one = "table" in observation or "shape" in observation
    fields = [observation] if is_one else list(observation.values())
    extra = msgspec.convert(plain.get("extra", {}), dict[str, Any])
    fields += [plain.get("action", {}), plain.get("reward", {}), *extra.values()]
    for field in fields:
        msgspec.convert(field, _Field)
    goals = msgspec.convert(plain.get("goals"), tuple[str, str] | None)
    schema = Schema.from_dict({**plain, "goals": goals})
    stored = [*schema.rows.values(), *schema.steps.values()]
    if max(field.bytes for field in stored) > LARGEST_ITEM_BYTES:
        raise ValueError("a field is larger than any memory")
    return schema


def _layout(settings: _Settings, schema: Schema) -> Layout:
    layout = Layout(**settings.layout)
    if settings.n_envs != layout.streams or settings.n_envs < 1:
        raise ValueError(f"{layout.streams} streams for {settings.n_envs} environments")
    if settings.compress not in ("", *CODECS):
        raise ValueError(f"unknown compression {settings.compress!r}")
    if layout.transitions < layout.streams or layout.transitions % layout.streams:
        raise ValueError(f"{layout.transitions} transitions in {layout.streams} streams")
    if layout.chunk_rows < 2 * schema.stack or layout.chunks < 1:
        raise ValueError(f"{layout.chunks} chunks of {layout.chunk_rows} rows")
    rows = layout.chunks * layout.chunk_rows + schema.stack
    if rows > MAX_ROWS or layout.transitions > MAX_ROWS:
        raise ValueError(f"{rows} rows for {layout.transitions} transitions")
    return layout


def _arena(state: _State, layout: Layout, schema: Schema, plain: dict[str, Any]) -> RowChunks:
    """The chunks of rows, as they will be restored."""
    if len(state.arena.streams) != layout.streams:
        raise ValueError(f"{len(state.arena.streams)} of {layout.streams} streams")
    arena = RowChunks(layout.chunks, layout.chunk_rows, schema.stack, layout.streams)
    arena.restore(plain)
    owned = [chunk for stream in arena.streams for chunk, _ in stream.closed_chunks]
    owned += [chunk for stream in arena.streams for chunk, _ in stream.open_chunks]
    known = arena.free.union(owned)
    # every chunk up to the highest is free, or one stream's
    if (
        arena.high_chunk > layout.chunks
        or len(known) != arena.high_chunk
        or len(state.arena.free) + len(owned) != arena.high_chunk
        or max(known, default=-1) >= arena.high_chunk
    ):
        raise ValueError("chunks of rows belong to no stream, or to two")
    for stream in arena.streams:
        if not 0 <= stream.added - stream.oldest <= layout.slots:
            raise ValueError(f"{stream.added - stream.oldest} transitions of {layout.slots}")
        if not stream.head <= stream.end <= arena.rows or (stream.added and not stream.end):
            raise ValueError(f"a stream at row {stream.head} of {stream.end}")
    return arena


def _item_bytes(schema: Schema, has_priorities: bool) -> dict[str, list[int]]:
    rows = [field.bytes for field in schema.rows.values()]
    if schema.stack > 1:
        rows.append(HISTORY_BYTES)
    steps = [START_BYTES, 1, *(field.bytes for field in schema.steps.values())]
    leaves = {"leaves": [_LEAF_BYTES]} if has_priorities else {}
    return {"rows": rows, "steps": steps, **leaves}


# ---- blocks ------------------------------------------------------------------------------------


def _check_blocks(blocks: tuple[Block, ...], found: CheckedManifest, arena: RowChunks) -> None:
    items = {"rows": arena.rows, "steps": found.layout.transitions}
    items["leaves"] = found.layout.transitions
    for block in blocks:
        columns = found.item_bytes.get(block.group)
        if columns is None or len(columns) != len(block.parts):
            raise ValueError(f"{block.segment} has unknown columns")
        if not block.begin <= block.live_begin < block.live_end <= block.end <= items[block.group]:
            raise ValueError(f"{block.segment}: items outside of the buffer")
        _check_parts(block, columns)
    _check_places(blocks)
    # a chunk may end in rows that were never written: transitions show which are in use
    wanted = {"rows": [], "steps": found.steps, "leaves": [(0, items["leaves"])]}
    for group in found.item_bytes:
        _check_covered(group, blocks, wanted[group])


def _check_parts(block: Block, columns: list[int]) -> None:
    count = block.end - block.begin
    for part, item_bytes in zip(block.parts, columns, strict=True):
        size = item_bytes * count
        most = part.stored_bytes * MOST_GAIN[part.codec] if part.codec in MOST_GAIN else -1
        if size > most or (not part.codec and size != part.stored_bytes):
            raise ValueError(f"{block.segment}: {part.stored_bytes} bytes for {size}")


def _check_places(blocks: Iterable[Block]) -> None:
    """No two blocks share bytes of a segment, unless they are two stretches of one."""
    first: dict[tuple[str, int], Block] = {}
    for block in blocks:
        known = first.setdefault((block.segment, block.parts[0].offset), block)
        if (known.group, known.begin, known.end, known.parts) != (
            block.group, block.begin, block.end, block.parts
        ):  # fmt: skip
            raise ValueError(f"{block.segment}: two blocks at one place")
    spans = sorted(
        (block.segment, part.offset, part.offset + part.stored_bytes)
        for block in first.values()
        for part in block.parts
    )
    for (name, _, end), (other, begin, _) in pairwise(spans):
        if name == other and begin < end:
            raise ValueError(f"{name}: blocks that overlap")


def _check_covered(group: str, blocks: Iterable[Block], wanted: list[Span]) -> None:
    live = sorted((b.live_begin, b.live_end) for b in blocks if b.group == group)
    if any(end > begin for (_, end), (begin, _) in pairwise(live)):
        raise ValueError(f"two blocks for the same {group}")
    covered = merged(live)
    at = 0
    for begin, end in wanted:
        while at < len(covered) and covered[at][1] <= begin:
            at += 1
        if begin < end and (at == len(covered) or covered[at][0] > begin or covered[at][1] < end):
            raise ValueError(f"{group} {begin} to {end} are in no block")


# ---- contents ----------------------------------------------------------------------------------


def check_contents(store: Any, tree: SumTree | None, blocks: Iterable[Block]) -> None:
    """Transitions point at rows that were saved, and priorities are numbers; both are loaded."""
    from ramledger.replay.storage.store import rows_ahead

    spans = merged([(b.live_begin, b.live_end) for b in blocks if b.group == "rows"])
    bounds = np.array(spans, np.int64).reshape(-1)  # begin and end, again and again
    for number, stream in enumerate(store.streams):
        for begin, end in _slots(stream.oldest, stream.added, store.slots):
            places = slice(begin * store.n_envs + number, end * store.n_envs, store.n_envs)
            starts, flags = store.starts[places].astype(np.int64), store.flags[places]
            later = starts + rows_ahead(flags, store.stack)
            if (starts < store.stack - 1).any() or not _all_within(bounds, starts, later):
                raise _damaged("transitions point outside of the rows")
    if tree is not None and not (np.isfinite(tree.leaves).all() and (tree.leaves >= 0).all()):
        raise _damaged("priorities are not positive numbers")


def _all_within(bounds: Array, *rows: Array) -> bool:
    """Whether rows lie in spans: after a begin and before its end, which alternate in `bounds`."""
    return all((np.searchsorted(bounds, found, "right") % 2 == 1).all() for found in rows)


def _slots(oldest: int, added: int, slots: int) -> Iterable[Span]:
    """Where the transitions of a stream are in its ring, in stretches of bounded size."""
    at = oldest
    while at < added:
        begin = at % slots
        count = min(added - at, slots - begin, 1 << 20)
        yield begin, begin + count
        at += count


def _damaged(what: str) -> CheckpointError:
    return CheckpointError(f"the save is damaged: {what}", hint="an earlier save may be intact")
