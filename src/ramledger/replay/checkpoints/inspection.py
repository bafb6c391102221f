"""What a checkpoint contains and whether it is intact, without loading it."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ramledger.errors import CheckpointError
from ramledger.replay.checkpoints.manifest import Manifest
from ramledger.replay.checkpoints.manifest_check import check_manifest
from ramledger.replay.checkpoints.saves import newest_manifest, numbers_in, read_manifest
from ramledger.replay.checkpoints.segment import SegmentReader
from ramledger.replay.schema import Schema

INSPECT_SCHEMA = "ramledger.replay.inspect/1"
VERIFY_SCHEMA = "ramledger.replay.verify/1"
# if this share of the capacity would have been enough, the report says so
RIGHT_SIZE = 0.8


@dataclass(frozen=True, slots=True)
class Inspection:
    """The newest save of a folder."""

    folder: str
    number: int
    saves: tuple[int, ...]
    made_at: float
    transitions: int
    capacity: int
    total_added: int
    environments: int
    reserved_bytes: int  # what the buffer takes in memory at most
    checkpoint_bytes: int  # on the disk
    bytes_per_transition: float  # stored, without the reserve
    naive_bytes_per_transition: float  # with observation and next observation in full
    tables: dict[str, str]
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def never_reached_bytes(self) -> int:
        """Reserved for transitions that the run never added; 0 if it is not worth a word."""
        if self.total_added >= RIGHT_SIZE * self.capacity:
            return 0
        return int(self.reserved_bytes * (1 - self.total_added / self.capacity))

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": INSPECT_SCHEMA,
            **asdict(self),
            "never_reached_bytes": self.never_reached_bytes,
        }


def inspect(folder: str | os.PathLike[str]) -> Inspection:
    """Describe the newest save."""
    path = Path(folder)
    manifest = newest_manifest(path)
    found = check_manifest(manifest, str(path))
    schema, layout = found.schema, found.layout
    return Inspection(
        folder=str(path),
        number=manifest.number,
        saves=tuple(sorted(numbers_in(path))),
        made_at=manifest.made_at,
        transitions=found.transitions,
        capacity=layout.transitions,
        total_added=manifest.state["total_added"],
        environments=layout.streams,
        reserved_bytes=layout.reserved_bytes,
        checkpoint_bytes=manifest.stored_bytes,
        bytes_per_transition=schema.row_bytes + schema.step_bytes,
        naive_bytes_per_transition=_naive_bytes(schema),
        tables=manifest.tables,
        fields=manifest.schema,
    )


def _naive_bytes(schema: Schema) -> float:
    steps = sum(step.bytes for step in schema.steps.values()) + 1
    rows = sum(
        row.bytes * (getattr(schema.observations[name], "stack", 1))
        for name, row in schema.rows.items()
    )
    return 2 * rows + steps


@dataclass(frozen=True, slots=True)
class Verified:
    """One save: whole, or what is wrong with it."""

    number: int
    blocks: int
    checked_bytes: int
    problems: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.problems


def verify(
    folder: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None
) -> list[Verified]:
    """Read every block of every save once and compare its checksum; newest save first."""
    path = Path(folder)
    numbers = numbers_in(path)
    if not numbers:
        newest_manifest(path)  # raises
    found: list[Verified] = []
    known: dict[tuple[str, int], str] = {}
    reader = SegmentReader(path)
    try:
        for number in numbers:
            try:
                manifest = read_manifest(path, number)
            except CheckpointError as error:
                found.append(Verified(number, 0, 0, (error.message,)))
                continue
            found.append(_verified(manifest, reader, known, progress))
    finally:
        reader.close()
    return found


def _verified(
    manifest: Manifest,
    reader: SegmentReader,
    known: dict[tuple[str, int], str],
    progress: Callable[[int, int], None] | None,
) -> Verified:
    problems: list[str] = []
    total, done = manifest.stored_bytes, 0
    for block in manifest.blocks:
        key = block.segment, block.parts[0].offset
        if key not in known:
            try:
                reader.verify(block)
                known[key] = ""
            except CheckpointError as error:
                known[key] = error.message
        if known[key]:
            problems.append(known[key])
        done += sum(part.stored_bytes for part in block.parts)
        if progress is not None:
            progress(min(done, total), total)
    return Verified(manifest.number, len(manifest.blocks), total, tuple(dict.fromkeys(problems)))


def verified_document(folder: str, found: list[Verified]) -> dict[str, Any]:
    """The document of `ramledger replay verify --json`."""
    saves = [asdict(save) | {"whole": save.is_whole} for save in found]
    return {"schema": VERIFY_SCHEMA, "folder": folder, "saves": saves}
