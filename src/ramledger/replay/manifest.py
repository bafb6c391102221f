"""A checkpoint's table of contents: one JSON file a save, checksummed, replaced atomically.

`save-00000012.json` names blocks of immutable segment files; a save counts when it is there.
"""

import json
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ramledger.errors import CheckpointError

FORMAT = "ramledger.replay/1"
SEGMENT_SUFFIX = ".seg"
_MANIFEST = re.compile(r"save-(\d{8})\.json")


@dataclass(frozen=True, slots=True)
class Part:
    """One column's bytes of a block, as they are in the segment."""

    offset: int
    stored_bytes: int
    crc32: int
    codec: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Items `begin` to `end` of a group's columns; of those, `live_begin` to `live_end` count."""

    group: str
    begin: int
    end: int
    live_begin: int
    live_end: int
    segment: str
    parts: tuple[Part, ...]

    def to_list(self) -> list[Any]:
        parts = [[p.offset, p.stored_bytes, p.crc32, p.codec] for p in self.parts]
        numbers = [self.begin, self.end, self.live_begin, self.live_end]
        return [self.group, *numbers, self.segment, parts]

    @classmethod
    def from_list(cls, found: list[Any]) -> "Block":
        group, begin, end, live_begin, live_end, segment, parts = found
        return cls(
            group, begin, end, live_begin, live_end, segment, tuple(Part(*part) for part in parts)
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """One save: what the buffer is, its state, and where its bytes are."""

    number: int
    buffer_id: str
    made_at: float
    schema: dict[str, Any]
    settings: dict[str, Any]
    tables: dict[str, str]
    state: dict[str, Any]
    blocks: tuple[Block, ...] = field(default=())

    @property
    def segments(self) -> set[str]:
        return {block.segment for block in self.blocks}

    @property
    def stored_bytes(self) -> int:
        """On the disk; a block that counts in two stretches is there once."""
        whole = {(block.segment, part) for block in self.blocks for part in block.parts}
        return sum(part.stored_bytes for _, part in whole)

    def encoded(self) -> bytes:
        body = {name: getattr(self, name) for name in self.__slots__ if name != "blocks"}
        body["blocks"] = [block.to_list() for block in self.blocks]
        text = json.dumps(body, separators=(",", ":")).encode()
        head = {"format": FORMAT, "bytes": len(text), "crc32": zlib.crc32(text)}
        return json.dumps(head).encode() + b"\n" + text + b"\n"

    @classmethod
    def decoded(cls, data: bytes, name: str) -> "Manifest":
        try:
            first, _, text = data.partition(b"\n")
            head = json.loads(first)
            if head["format"] != FORMAT:
                raise CheckpointError(
                    f"{name} has format {head['format']!r}, this version reads {FORMAT!r}",
                    hint="use the version of ramledger that wrote it, or a newer one",
                )
            text = text[: head["bytes"]]
            if len(text) != head["bytes"] or zlib.crc32(text) != head["crc32"]:
                raise CheckpointError(f"{name} is damaged", hint="an earlier save may be whole")
            body = json.loads(text)
            body["blocks"] = tuple(map(Block.from_list, body["blocks"]))
            return cls(**body)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"{name} is no manifest of a checkpoint", hint="an earlier save may be whole"
            ) from None


def manifest_name(number: int) -> str:
    return f"save-{number:08d}.json"


def number_of(name: str) -> int | None:
    """The number of the save that a manifest of this name is for; None for other names."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def numbers_in(folder: Path) -> list[int]:
    """Numbers of the saves in a folder, newest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"cannot read {folder}: {error.strerror}") from None
    return sorted((int(m[1]) for m in map(_MANIFEST.fullmatch, names) if m), reverse=True)


def read_manifest(folder: Path, number: int) -> Manifest:
    path = folder / manifest_name(number)
    try:
        return Manifest.decoded(path.read_bytes(), path.name)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None


def newest_manifest(folder: Path) -> Manifest:
    """The newest whole manifest of a folder; its blocks may still be damaged."""
    numbers = numbers_in(folder)
    for number in numbers:
        with suppress(CheckpointError):
            return read_manifest(folder, number)
    if numbers:
        return read_manifest(folder, numbers[0])
    raise CheckpointError(
        f"no checkpoint in {folder}", hint="name the folder that `ReplayBuffer.save` wrote to"
    )


def write_manifest(folder: Path, manifest: Manifest) -> int:
    """Write, fsync, rename, fsync the folder: after this the save is the newest. Its bytes."""
    data = manifest.encoded()
    target = folder / manifest_name(manifest.number)
    draft = target.with_suffix(".tmp")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(draft, target)
    sync_folder(folder)
    return len(data)


def sync_folder(folder: Path) -> None:
    """Make names that were created, renamed or removed durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_unneeded(folder: Path, kept: Iterable[Manifest]) -> None:
    """Remove saves and segments that no kept save needs; what cannot be removed stays."""
    manifests = list(kept)
    names = {manifest_name(manifest.number) for manifest in manifests}
    for manifest in manifests:
        names |= manifest.segments
    for name in os.listdir(folder):
        is_ours = _MANIFEST.fullmatch(name) or name.endswith((SEGMENT_SUFFIX, ".tmp"))
        if is_ours and name not in names:
            with suppress(OSError):
                os.unlink(folder / name)


def remove_leftovers(folder: Path, number: int) -> None:
    """Remove what a writer that was killed left of save `number`, which never came to be."""
    for name in os.listdir(folder):
        is_segment = name.endswith(SEGMENT_SUFFIX) and name[:8] >= f"{number:08d}"
        if is_segment or name.endswith(".tmp"):
            with suppress(OSError):
                os.unlink(folder / name)


def without(blocks: Iterable[Block], group: str, begin: int, end: int) -> list[Block]:
    """The blocks without what items `begin` to `end` of a group cover anew."""
    found: list[Block] = []
    for block in blocks:
        if block.group != group or block.live_end <= begin or block.live_begin >= end:
            found.append(block)
            continue
        for live in ((block.live_begin, begin), (end, block.live_end)):
            if live[0] < live[1]:
                found.append(
                    Block(block.group, block.begin, block.end, *live, block.segment, block.parts)
                )
    return found


def within(blocks: Iterable[Block], group: str, spans: list[tuple[int, int]]) -> list[Block]:
    """The blocks, those of one group cut to sorted disjoint spans that are still of use."""
    found: list[Block] = []
    ends = [end for _, end in spans]
    for block in blocks:
        if block.group != group:
            found.append(block)
            continue
        for begin, end in spans[bisect_right(ends, block.live_begin) :]:
            if begin >= block.live_end:
                break
            live = max(begin, block.live_begin), min(end, block.live_end)
            found.append(
                Block(block.group, block.begin, block.end, *live, block.segment, block.parts)
            )
    return found
