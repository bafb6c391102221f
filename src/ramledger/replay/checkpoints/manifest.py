"""A checkpoint's table of contents: one JSON document a save, checksummed, decoded strictly.

It names blocks of immutable segments, and where the save comes from: saves of one writer form a
line, and `history` is how far each line goes that this one continued from.
"""

import hashlib
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from ramledger.durable_files import shown
from ramledger.errors import CheckpointError

FORMAT = "ramledger.replay/2"
READABLE = ("ramledger.replay/1", FORMAT)
SEGMENT_SUFFIX = ".seg"
LEGACY = "legacy-"  # begins the lineage of saves of the first format, which name none
MOST_LINES = 4096  # that a history keeps, the latest
HEAD_BYTES = 256

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Crc = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF)]
_Number = Annotated[int, msgspec.Meta(ge=1, le=99_999_999)]
_BufferId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
_Lineage = Annotated[str, msgspec.Meta(pattern=r"^(legacy-)?[0-9a-f]{16}\Z")]
_Segment = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]{8}-([0-9a-f]{16}-)?[0-9]{4,9}\.seg\Z")
]  # fmt: skip

Line = tuple[_Lineage, _Number]  # saves of this lineage up to this number


class Part(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One column's bytes of a block, as they are in the segment."""

    offset: Count
    stored_bytes: Count
    crc32: _Crc
    codec: str = ""


class Block(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Items `begin` to `end` of a group's columns; of those, `live_begin` to `live_end` count."""

    group: str
    begin: Count
    end: Count
    live_begin: Count
    live_end: Count
    segment: _Segment
    parts: Annotated[tuple[Part, ...], msgspec.Meta(min_length=1)]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One save: what the buffer is, its state, and where its bytes are."""

    number: _Number
    buffer_id: _BufferId
    made_at: float
    schema: dict[str, Any]
    settings: dict[str, Any]
    tables: dict[str, str]
    state: dict[str, Any]
    lineage: _Lineage = ""
    history: tuple[Line, ...] = ()
    blocks: tuple[Block, ...] = ()

    @property
    def segments(self) -> set[str]:
        return {block.segment for block in self.blocks}

    @property
    def stored_bytes(self) -> int:
        """On the disk; a block that counts in two stretches is there once."""
        whole = {(block.segment, part) for block in self.blocks for part in block.parts}
        return sum(part.stored_bytes for _, part in whole)

    @property
    def line(self) -> tuple[Line, ...]:
        """The history of a save that continues from this one."""
        return (*self.history, (self.lineage, self.number))[-MOST_LINES:]

    @property
    def legacy_line(self) -> Line | None:
        """The latest save of the first format that this one continues from, or is."""
        return next((line for line in reversed(self.line) if line[0].startswith(LEGACY)), None)

    def continues_from(self, other: "Manifest") -> bool:
        """Whether `other` is this save, or one that this one comes from."""
        return comes_from(self.line, other)

    def encoded(self) -> bytes:
        plain = msgspec.to_builtins(self)
        text = json.dumps(plain, separators=(",", ":"), allow_nan=False).encode()
        head = {"format": FORMAT, "bytes": len(text), "crc32": zlib.crc32(text)}
        return json.dumps(head).encode() + b"\n" + text + b"\n"

    @classmethod
    def decoded(cls, data: bytes, name: str, number: int | None = None) -> "Manifest":
        """The inverse of `encoded`; an error for anything else, or if it is not save `number`."""
        text, is_legacy = _checked_text(data, name)
        try:
            found = msgspec.json.decode(text, type=cls)
        except (ValueError, RecursionError) as error:
            raise _damaged(f"{name} is not the manifest of a checkpoint: {shown(error)}") from None
        if is_legacy:
            lineage = LEGACY + hashlib.sha256(text).hexdigest()[:16]
            found = msgspec.structs.replace(found, lineage=lineage, history=())
        if not found.lineage:
            raise _damaged(f"{name} is not the manifest of a checkpoint: it has no lineage")
        if number is not None and found.number != number:
            raise _damaged(f"{name} holds save {found.number}: it was renamed or swapped")
        return found


class _Head(msgspec.Struct):
    format: str
    bytes: Count
    crc32: _Crc


class NewerFormatError(CheckpointError):
    """Written by a later version: it cannot be checked here, and must not be removed."""


def _checked_text(data: bytes, name: str) -> tuple[bytes, bool]:
    """The document behind the first line, compared with what that says; whether it is legacy."""
    end = data.find(b"\n", 0, HEAD_BYTES)
    try:
        head = msgspec.json.decode(data[: max(end, 0)], type=_Head)
    except (ValueError, RecursionError):
        raise _damaged(f"{name} is not the manifest of a checkpoint") from None
    if head.format not in READABLE:
        raise NewerFormatError(
            f"{name} has format {shown(head.format)!r}, this version reads {FORMAT!r}",
            hint="use the version of ramledger that wrote it, or a newer one",
        )
    text = data[end + 1 : end + 1 + head.bytes]
    if len(text) != head.bytes or zlib.crc32(text) != head.crc32:
        raise _damaged(f"{name} is damaged")
    return text, head.format == READABLE[0]


def _damaged(message: str) -> CheckpointError:
    return CheckpointError(message, hint="an earlier save may be intact")


def comes_from(line: Iterable[Line], other: Manifest) -> bool:
    """Whether a line of saves includes `other`."""
    return any(lineage == other.lineage and other.number <= last for lineage, last in line)


def without(blocks: Iterable[Block], group: str, begin: int, end: int) -> list[Block]:
    """The blocks, without those parts that new items `begin` to `end` of a group replace."""
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
    """The blocks, those of one group cut to the spans that are still needed."""
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
