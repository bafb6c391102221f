"""The account of each mapping: one of its own, or a pool that owners share."""

import os
from dataclasses import dataclass
from enum import Enum

from ramledger.ledger import Source
from ramledger.measure.mappings import Mapping, MappingKind
from ramledger.statement.process_measurement import Measurement


class Pool(Enum):
    """Anonymous memory that is divided by allocator statistics and the objects in it."""

    HEAP = "heap"  # [heap] and the heaps of glibc's thread arenas: small malloc blocks
    MAPPED = "mapped"  # everything else: large malloc blocks, CPython's arenas, direct mmaps


@dataclass(frozen=True, slots=True)
class MappingAccount:
    """The account of those resident bytes of a mapping that no object owns."""

    account: str
    source: Source


def account_of_mapping(mapping: Mapping, measurement: Measurement) -> MappingAccount | Pool:
    """The account or pool of one mapping."""
    if mapping.start in measurement.stacks.starts:
        return MappingAccount("threads/stacks", Source.STACK)
    package = measurement.libraries.get(mapping.start)
    if package == "ramledger":
        return MappingAccount("ramledger", Source.TOOL)
    if package is not None:
        return MappingAccount(f"libraries/{package}", Source.LIBRARY)
    if mapping.start in measurement.arena_heaps:
        return Pool.HEAP
    return _account_by_kind(mapping)


def _account_by_kind(mapping: Mapping) -> MappingAccount | Pool:
    kind = mapping.kind
    if kind is MappingKind.HEAP:
        return Pool.HEAP
    if kind is MappingKind.STACK:
        return MappingAccount("threads/stacks", Source.STACK)
    if kind is MappingKind.SHARED_MEMORY:
        return MappingAccount(f"shared memory/{_short_name(mapping)}", Source.SHARED_MEMORY)
    if kind is MappingKind.FILE:
        return MappingAccount(f"files/{_short_name(mapping)}", Source.FILE)
    if kind is MappingKind.DEVICE:
        return MappingAccount(f"devices/{_short_name(mapping)}", Source.FILE)
    if kind is MappingKind.KERNEL:
        return MappingAccount("kernel", Source.KERNEL)
    if mapping.path.startswith("[anon:"):
        return MappingAccount(f"anonymous/{mapping.path[6:-1].strip()}", Source.ALLOCATOR)
    return Pool.MAPPED


def _short_name(mapping: Mapping) -> str:
    path = mapping.file_path
    return os.path.basename(path) or path or "unnamed"
