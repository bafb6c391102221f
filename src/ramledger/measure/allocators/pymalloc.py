"""Statistics of CPython's small-object allocator (pymalloc) in this process."""

import ctypes
import sys
from dataclasses import dataclass

from ramledger.measure.allocators.memstream import printed_by

_USED = "# bytes in allocated blocks"
_AVAILABLE = "# bytes in available blocks"
_LOST = "# bytes lost to "


@dataclass(frozen=True, slots=True)
class PymallocStatistics:
    """arena = used + free + overhead, to the byte; objects above 512 bytes are malloc's.

    `unused_pool_bytes` is the part of free in pools that hold no block: pages never touched in
    a new arena, which are not resident, or pages left by objects that are gone, which are.
    """

    arenas: int
    arena_bytes: int
    used_bytes: int
    free_bytes: int
    unused_pool_bytes: int
    overhead_bytes: int
    blocks: int


def pymalloc_statistics() -> PymallocStatistics | None:
    """Statistics of this process; None where CPython uses another allocator."""
    return parse_statistics(_statistics())


def used_bytes() -> int | None:
    """`used_bytes` of the statistics, in half the time."""
    _, found, rest = _statistics().partition(_USED)
    number = rest.partition("\n")[0].strip(" =").replace(",", "")
    return int(number) if found and number.isdecimal() else None


def blocks() -> int:
    """Blocks in use in CPython's object allocator; 0 where it counts none."""
    return sys.getallocatedblocks()


def _statistics() -> str:
    try:
        # pythonapi keeps the GIL, which guards the walk over the pools
        function = ctypes.pythonapi._PyObject_DebugMallocStats
    except (AttributeError, ValueError):
        return ""
    _, text = printed_by(lambda stream: int(function(ctypes.c_void_p(stream))))
    return text


def parse_statistics(text: str) -> PymallocStatistics | None:
    """Read what sys._debugmallocstats prints, by the labels of its lines."""
    sums: dict[str, int] = {}
    arenas = arena_bytes = unused_pool_bytes = 0
    # a second table, of the map over the arenas, follows the first "Total": it lies outside them
    for line in text.partition("\nTotal ")[0].splitlines():
        label, equals, value = line.partition("=")
        number = value.strip().replace(",", "")
        if not equals or not number.isdecimal():
            continue
        if "bytes/arena" in label:
            arenas, arena_bytes = int(label.split()[0]), int(number)
        elif "unused pools" in label:
            unused_pool_bytes = int(number)
        else:
            sums[label.strip()] = int(number)
    if not arena_bytes or _USED not in sums:
        return None
    return PymallocStatistics(
        arenas=arenas,
        arena_bytes=arena_bytes,
        used_bytes=sums[_USED],
        free_bytes=sums.get(_AVAILABLE, 0) + unused_pool_bytes,
        unused_pool_bytes=unused_pool_bytes,
        overhead_bytes=sum(size for label, size in sums.items() if label.startswith(_LOST)),
        blocks=_blocks_in_use(text),
    )


def _blocks_in_use(text: str) -> int:
    """The sum of the column "blocks in use" in the table of size classes."""
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[3]) for row in rows if len(row) == 5 and all(map(str.isdecimal, row)))
