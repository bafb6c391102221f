"""Each mapping of a process gets a place: an account of its own, or a pool that owners share."""

import os
from dataclasses import dataclass
from enum import Enum

from ramledger.ledger import Source
from ramledger.measure.mappings import Mapping, MappingKind
from ramledger.statement.reading import Reading


class Pool(Enum):
    """Anonymous memory that only the allocators' books and the objects in it can divide."""

    HEAP = "heap"  # [heap] and the heaps of glibc's thread arenas: small malloc blocks
    MAPPED = "mapped"  # everything else: large malloc blocks, CPython's arenas, direct mmaps


@dataclass(frozen=True, slots=True)
class Place:
    """Where the resident bytes of one mapping are booked when no object claims them."""

    account: str
    source: Source


def place_of(mapping: Mapping, reading: Reading) -> Place | Pool:
    """The place of one mapping."""
    if mapping.start in reading.stacks.starts:
        return Place("threads/stacks", Source.STACK)
    package = reading.libraries.get(mapping.start)
    if package is not None:
        return Place(f"libraries/{package}", Source.LIBRARY)
    if mapping.start in reading.arena_heaps:
        return Pool.HEAP
    return _place_by_kind(mapping)


def _place_by_kind(mapping: Mapping) -> Place | Pool:
    kind = mapping.kind
    if kind is MappingKind.HEAP:
        return Pool.HEAP
    if kind is MappingKind.STACK:
        return Place("threads/stacks", Source.STACK)
    if kind is MappingKind.SHARED_MEMORY:
        return Place(f"shared memory/{_short_name(mapping)}", Source.SHARED_MEMORY)
    if kind is MappingKind.FILE:
        return Place(f"files/{_short_name(mapping)}", Source.FILE)
    if kind is MappingKind.DEVICE:
        return Place(f"devices/{_short_name(mapping)}", Source.FILE)
    if kind is MappingKind.KERNEL:
        return Place("kernel", Source.KERNEL)
    if mapping.path.startswith("[anon:"):
        return Place(f"anonymous/{mapping.path[6:-1].strip()}", Source.ALLOCATOR)
    return Pool.MAPPED


def _short_name(mapping: Mapping) -> str:
    path = mapping.file_path
    return os.path.basename(path) or path or "unnamed"
