"""Where the memory without an owner lies, by mapping, and what it likely is: a note, no account."""

import sys
from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ramledger.measure.mappings import Mapping
from ramledger.statement.mapping_accounts import Pool, account_of_mapping
from ramledger.statement.process_measurement import Measurement
from ramledger.units import MIB, format_bytes

if TYPE_CHECKING:
    from ramledger.objects.process_objects import ProcessObjects

WORTH_BYTES, WORTH_SHARE = 8 * MIB, 0.02
_LISTED = 3
# libraries that take memory from the kernel by themselves
_OWN_ALLOCATORS = ("pyarrow", "polars", "duckdb", "jaxlib", "tensorflow", "ray")


def unowned_mappings(measurement: Measurement, objects: "ProcessObjects") -> list[int]:
    """Resident bytes of mappings beyond what objects in them reserve, most first.

    Without malloc's heaps, and without Python's arenas, which may share a mapping with others.
    """
    python = objects.mappings_with_objects(measurement.mappings)
    mappings = [
        mapping
        for mapping in measurement.mappings
        if account_of_mapping(mapping, measurement) is Pool.MAPPED
    ]
    rests = _beyond_blocks(mappings, objects)
    arenas = measurement.python.arena_bytes if measurement.python is not None else 0
    beside = sum(rest for m, rest in zip(mappings, rests, strict=True) if m.start in python)
    found = [rest for m, rest in zip(mappings, rests, strict=True) if m.start not in python]
    return sorted((rest for rest in [*found, beside - arenas] if rest >= MIB), reverse=True)


def _beyond_blocks(mappings: Sequence[Mapping], objects: "ProcessObjects") -> list[int]:
    blocks = sorted(
        (storage.address, storage.address + storage.reserved_bytes)
        for holding in objects.holdings
        for block in holding.blocks
        if (storage := block.storage).address is not None
    )
    rests, at = [], 0
    for mapping in mappings:  # in the order of their addresses
        claimed = 0
        while at < len(blocks) and blocks[at][1] <= mapping.start:
            at += 1
        for start, stop in islice(blocks, at, None):
            if start >= mapping.stop:
                break
            claimed += min(stop, mapping.stop) - max(start, mapping.start)
        rests.append(max(0, mapping.rss_bytes - claimed))
    return rests


def note_on_unowned(rests: list[int], rss_bytes: int, loaded: Collection[str] = ()) -> str:
    """One sentence, or "" where it is not worth one."""
    total = sum(rests)
    if total < max(WORTH_BYTES, WORTH_SHARE * rss_bytes):
        return ""
    largest = ", ".join(map(format_bytes, rests[:_LISTED])) + ", …" * (len(rests) > _LISTED)
    where = "one place" if len(rests) == 1 else f"{len(rests)} places ({largest})"
    libraries = " or ".join(name for name in _OWN_ALLOCATORS if name in loaded)
    source = f"memory that {libraries} keeps for itself" if libraries else "blocks of native code"
    size = format_bytes(total)
    return f"{size} of native/in use and unexplained lie in {where}: likely {source}"


def unowned_note(measurement: Measurement, objects: "ProcessObjects") -> str:
    """The sentence for this process."""
    rests = unowned_mappings(measurement, objects)
    return note_on_unowned(rests, measurement.totals.rss_bytes, frozenset(sys.modules))
