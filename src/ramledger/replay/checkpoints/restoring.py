"""Loads a buffer: every block is verified, at once or when it is first needed."""

import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ramledger.durable_files import shown
from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay.checkpoints.manifest import Block, Line, Manifest, within
from ramledger.replay.checkpoints.manifest_check import check_contents, check_files
from ramledger.replay.checkpoints.point_in_time import arrays_of, live_rows
from ramledger.replay.checkpoints.saves import head_of, numbers_in, read_manifest
from ramledger.replay.checkpoints.saving import Progress, SavedAs
from ramledger.replay.checkpoints.segment import SegmentReader
from ramledger.replay.schema import Schema
from ramledger.replay.storage.backing import Array, Backing
from ramledger.replay.storage.sum_tree import Prioritized

if TYPE_CHECKING:
    from ramledger.replay.buffer import ReplayBuffer

Buffer = TypeVar("Buffer", bound="ReplayBuffer")


@dataclass(frozen=True, slots=True)
class Restored:
    """Which save was loaded, and what was wrong with newer ones."""

    folder: str
    number: int
    transitions: int
    lost: tuple[str, ...] = ()
    newest: Line | None = None  # the newest save in the folder then, whole or not


def load(
    make: "type[Buffer]",
    folder: str | os.PathLike[str],
    *,
    number: int | None,
    schema: Schema | None,
    tables: Mapping[str, Any] | None,
    lazy: bool,
    progress: Progress | None,
    backing: Backing | None,
) -> "Buffer":
    """The buffer of the newest save that is whole, or of save `number` and no other."""
    path = Path(folder)
    numbers = numbers_in(path)
    if not numbers:
        raise CheckpointError(
            f"no checkpoint in {path}", hint="name the folder that `ReplayBuffer.save` wrote to"
        )
    if number is not None and number not in numbers:
        raise CheckpointError(
            f"no save {number} in {path}",
            hint=f"the saves are {', '.join(map(str, sorted(numbers)))}",
        )
    lost: list[str] = []
    newest: Line | None = None
    for tried in numbers if number is None else (number,):
        try:
            manifest = read_manifest(path, tried)
            newest = newest or manifest.line[-1]
            # in a call of its own: what it made goes before the next save is tried
            buffer = _loaded(make, path, manifest, schema, tables, backing, lazy, progress)
        except CheckpointError as error:
            if isinstance(error, ForeignError):
                raise
            lost.append(f"save {tried}: {error.message}")
            continue
        if number is not None:
            newest = _newest_line(path, numbers)
        buffer.restored = Restored(str(path), tried, buffer.size, tuple(lost), newest)
        buffer.line = manifest.line
        # after a later one, the next save builds on nothing
        is_last = tried == numbers[0]
        head = head_of(path, tried)
        buffer.saved_as = SavedAs(str(path.resolve()), manifest, head) if is_last else None
        return buffer
    what = "no save is intact" if number is None else "the save is damaged"
    raise CheckpointError(
        f"{path}: {what}: {'; '.join(lost)}",
        hint="`ramledger replay verify` names every damaged block",
    )


class ForeignError(CheckpointError):
    """An error that an earlier save would have, too."""


def _newest_line(folder: Path, numbers: list[int]) -> Line | None:
    for number in numbers:
        with suppress(CheckpointError):
            return read_manifest(folder, number).line[-1]
    return None


def _loaded(
    make: "type[Buffer]",
    folder: Path,
    manifest: Manifest,
    schema: Schema | None,
    tables: Mapping[str, Any] | None,
    backing: Backing | None,
    lazy: bool,
    progress: Progress | None,
) -> "Buffer":
    _check(manifest, schema)
    check_files(manifest, folder)
    buffer = _made(make, manifest, tables, backing)
    _fill(buffer, folder, manifest, lazy, progress)
    return buffer


def _check(manifest: Manifest, schema: Schema | None) -> None:
    if schema is not None and Schema.from_dict(manifest.schema) != schema:
        raise ForeignError(
            "the checkpoint has a different schema",
            hint=f"it was saved with {shown(manifest.schema)}",
        )


def _made(
    make: "type[Buffer]",
    manifest: Manifest,
    tables: Mapping[str, Any] | None,
    backing: Backing | None,
) -> "Buffer":
    settings = dict(manifest.settings)
    given = settings.pop("prioritized")
    prioritized = Prioritized(**given) if given else None
    missing = manifest.tables.keys() - (tables or {}).keys()
    if missing:
        raise ForeignError(
            f"the checkpoint refers to tables that were not given: "
            f"{shown(', '.join(sorted(missing)))}",
            hint="pass the same data: load(folder, tables={…})",
        )
    try:
        buffer = make(
            Schema.from_dict(manifest.schema), tables=tables, prioritized=prioritized,
            backing=backing, **settings,
        )  # fmt: skip
    except ConfigError as error:
        raise CheckpointError(error.message, hint=error.hint) from None
    for name, digest in manifest.tables.items():
        if buffer.tables[name].sha256 != digest:
            raise ForeignError(
                f"table {shown(name)!r} is not the one that the checkpoint was made with",
                hint="load the same data, normalized the same way",
            )
    return buffer


def _fill(
    buffer: "ReplayBuffer",
    folder: Path,
    manifest: Manifest,
    lazy: bool,
    progress: Progress | None,
) -> None:
    try:
        buffer.restore_state(manifest.state)
    except ValueError as error:
        raise CheckpointError(
            f"the saved state of the buffer is invalid: {error}",
            hint="an earlier save may be intact",
        ) from None
    buffer.buffer_id = manifest.buffer_id
    blocks = within(manifest.blocks, "rows", live_rows(buffer.store.arena))
    loader = Loader(folder, blocks, arrays_of(buffer))
    try:
        _load(buffer, loader, lazy, progress)
        check_contents(buffer.store, buffer.tree, blocks)
        if buffer.tree is not None:
            buffer.tree.rebuild()
    except BaseException:
        loader.close()
        raise


def _load(buffer: "ReplayBuffer", loader: "Loader", lazy: bool, progress: Progress | None) -> None:
    for stream in buffer.store.streams if buffer.store.cold else ():
        for chunk, _ in stream.closed_chunks:  # one after the other: all at once may not fit
            loader.need_span("rows", *buffer.store.arena.span(chunk))
            buffer.store.seal(chunk)
    if not lazy:
        loader.load_all(progress)
    else:
        # steps and priorities are small beside the rows, and every way of sampling reads them
        loader.load_group("steps")
        loader.load_group("leaves")
        for stream in buffer.store.streams:
            loader.need_span("rows", stream.head - buffer.store.stack, stream.head)
        buffer.store.loader = loader


class Loader:
    """Reads blocks when something in them is first needed."""

    def __init__(
        self, folder: Path, blocks: Iterable[Block], arrays: dict[str, list[Array]]
    ) -> None:
        self._reader = SegmentReader(folder)
        self._arrays = arrays
        self._lock = threading.Lock()
        self._blocks: dict[str, list[Block]] = {name: [] for name in arrays}
        for block in sorted(blocks, key=lambda found: found.live_begin):
            if len(block.parts) != len(arrays.get(block.group, ())):
                raise CheckpointError(
                    f"{block.segment} has unknown columns",
                    hint="an earlier save may be intact",
                )
            self._blocks[block.group].append(block)
        self._begins = {
            name: np.array([block.live_begin for block in found], np.int64)
            for name, found in self._blocks.items()
        }
        self._missing = {name: set(range(len(found))) for name, found in self._blocks.items()}

    @property
    def is_done(self) -> bool:
        return not any(self._missing.values())

    def need(self, group: str, first: Array, last: Array) -> None:
        """Make sure that items `first` to `last` of a group are there, for each pair."""
        begins = self._begins[group]
        low = np.maximum(np.searchsorted(begins, first, "right") - 1, 0)
        high = np.searchsorted(begins, last, "right")
        pairs = set(zip(low.tolist(), high.tolist(), strict=True))
        for number in sorted({at for a, b in pairs for at in range(a, b)}):
            self._load(group, number)

    def need_span(self, group: str, begin: int, end: int) -> None:
        """The same for items `begin` to `end`."""
        blocks = self._blocks[group]
        at = max(bisect_right(self._begins[group].tolist(), begin) - 1, 0)
        while at < len(blocks) and blocks[at].live_begin < end:
            self._load(group, at)
            at += 1

    def load_group(self, group: str) -> None:
        for number in sorted(self._missing.get(group, ())):
            self._load(group, number)

    def load_all(self, progress: Progress | None) -> None:
        """Every block, in the order of the segments."""
        order = [(name, at) for name, found in self._blocks.items() for at in range(len(found))]
        order.sort(key=lambda pair: _place_of(self._blocks[pair[0]][pair[1]]))
        total = sum(part.stored_bytes for b in self._all() for part in b.parts)
        done = 0
        for name, at in order:
            self._load(name, at)
            done += sum(part.stored_bytes for part in self._blocks[name][at].parts)
            if progress is not None:
                progress(done, total)
        self._reader.close()

    def _all(self) -> list[Block]:
        return [block for found in self._blocks.values() for block in found]

    def _load(self, group: str, number: int) -> None:
        with self._lock:
            if number not in self._missing[group]:
                return
            block = self._blocks[group][number]
            for part, array in enumerate(self._arrays[group]):
                target = array[block.live_begin : block.live_end]
                if len(target) != block.live_end - block.live_begin:
                    raise CheckpointError(
                        f"{block.segment}: items outside of the buffer",
                        hint="an earlier save may be intact",
                    )
                self._reader.read(block, part, target)
            self._missing[group].discard(number)

    def close(self) -> None:
        self._reader.close()


def _place_of(block: Block) -> tuple[str, int]:
    return block.segment, block.parts[0].offset
