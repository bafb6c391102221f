"""Loading a buffer: verified block by block into place, all at once or when first needed."""

import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ramledger.errors import CheckpointError
from ramledger.replay.backing import Array, Backing
from ramledger.replay.manifest import Block, Manifest, numbers_in, read_manifest, within
from ramledger.replay.saving import Progress
from ramledger.replay.schema import Schema
from ramledger.replay.segment import SegmentReader
from ramledger.replay.snapshot import arrays_of, live_rows
from ramledger.replay.sum_tree import Prioritized

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
            f"no save {number} in {path}", hint=f"there are {', '.join(map(str, sorted(numbers)))}"
        )
    lost: list[str] = []
    for tried in numbers if number is None else (number,):
        try:
            manifest = read_manifest(path, tried)
            _check(manifest, schema)
            buffer = _made(make, manifest, tables, backing)
            _fill(buffer, path, manifest, lazy, progress)
        except CheckpointError as error:
            if getattr(error, "is_foreign", False):
                raise
            lost.append(f"save {tried}: {error.message}")
            continue
        buffer.restored = Restored(str(path), tried, buffer.size, tuple(lost))
        # after a later one, the next save builds on nothing
        buffer.saved_as = (str(path.resolve()), manifest) if tried == numbers[0] else None
        return buffer
    what = "no save is whole" if number is None else "the save is not whole"
    raise CheckpointError(
        f"{path}: {what}: {'; '.join(lost)}",
        hint="`ramledger replay verify` names every damaged block",
    )


def _check(manifest: Manifest, schema: Schema | None) -> None:
    if schema is not None and Schema.from_dict(manifest.schema) != schema:
        raise _foreign(
            "the checkpoint has another schema",
            f"it was saved with {manifest.schema}",
        )


def _foreign(message: str, hint: str) -> CheckpointError:
    """An error that no earlier save would cure."""
    error = CheckpointError(message, hint=hint)
    error.is_foreign = True  # type: ignore[attr-defined]
    return error


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
        raise _foreign(
            f"the checkpoint refers to tables that were not given: {', '.join(sorted(missing))}",
            "pass the same data: load(folder, tables={…})",
        )
    buffer = make(
        Schema.from_dict(manifest.schema), tables=tables, prioritized=prioritized,
        backing=backing, **settings,
    )  # fmt: skip
    for name, digest in manifest.tables.items():
        if buffer.tables[name].sha256 != digest:
            raise _foreign(
                f"table {name!r} is not the one that the checkpoint was made with",
                "load the same data, normalized the same way",
            )
    return buffer


def _fill(
    buffer: "ReplayBuffer",
    folder: Path,
    manifest: Manifest,
    lazy: bool,
    progress: Progress | None,
) -> None:
    buffer.restore_state(manifest.state)
    buffer.buffer_id = manifest.buffer_id
    blocks = within(manifest.blocks, "rows", live_rows(buffer.store))
    loader = Loader(folder, blocks, arrays_of(buffer))
    for stream in buffer.store.streams if buffer.store.cold else ():
        for chunk, _ in stream.closed_chunks:  # one after the other: all at once may not fit
            loader.need_span("rows", *buffer.store.arena.span(chunk))
            buffer.store.seal(chunk)
    if not lazy:
        loader.load_all(progress)
    else:
        loader.check_sizes()
        # steps and priorities are small beside the rows, and every way of sampling reads them
        loader.load_group("steps")
        loader.load_group("leaves")
        for stream in buffer.store.streams:
            loader.need_span("rows", stream.head - buffer.store.stack, stream.head)
        buffer.store.loader = loader
    if buffer.tree is not None:
        buffer.tree.rebuild()


class Loader:
    """Blocks that are read when something in them is needed first."""

    def __init__(
        self, folder: Path, blocks: Iterable[Block], arrays: dict[str, list[Array]]
    ) -> None:
        self._reader = SegmentReader(folder)
        self._folder = folder
        self._arrays = arrays
        self._lock = threading.Lock()
        self._blocks: dict[str, list[Block]] = {name: [] for name in arrays}
        for block in sorted(blocks, key=lambda found: found.live_begin):
            if len(block.parts) != len(arrays.get(block.group, ())):
                raise CheckpointError(f"{block.segment} has columns that nobody knows")
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
                    raise CheckpointError(f"{block.segment}: items outside of the buffer")
                self._reader.read(block, part, target)
            self._missing[group].discard(number)

    def check_sizes(self) -> None:
        """Every segment is there and long enough; contents are verified when they are read."""
        ends: dict[str, int] = {}
        for block in self._all():
            last = max(part.offset + part.stored_bytes for part in block.parts)
            ends[block.segment] = max(ends.get(block.segment, 0), last)
        for name, end in ends.items():
            try:
                size = os.stat(self._folder / name).st_size
            except OSError as error:
                raise CheckpointError(
                    f"cannot read {self._folder / name}: {error.strerror}"
                ) from None
            if size < end:
                raise CheckpointError(f"{self._folder / name} is cut off")


def _place_of(block: Block) -> tuple[str, int]:
    return block.segment, block.parts[0].offset
