"""Replay buffers as arrays: `self.state[i]` and `self.next_state[i]`, recognized by their rows.

Row i of one array is row i + 1 of another one of the same shape that the same object holds.
"""

import os
from collections.abc import Iterable, Mapping
from itertools import permutations
from math import prod

from ramledger.interpreter.array_bytes import ArrayBytes
from ramledger.interpreter.own_memory import OwnMemory
from ramledger.ledger import Source
from ramledger.measure.pages import ResidentPages
from ramledger.objects.holdings import Block, Holding
from ramledger.objects.names.paths import Path
from ramledger.objects.replays.transitions import FieldContent, TransitionContent

ARRAYS = "arrays"  # what such a buffer consists of
_LEAST_ROWS = 256
_MOST_GROUPS, _MOST_ARRAYS = 20, 16  # buffers that are looked at, and arrays of each
_LEAST_FILLED = 64
_PROBES = 48
_LEAST_MATCHES = 6
_MOST_ROW_BYTES = 1 << 20


class RingArrays:
    """Arrays of one object that hold transitions: one row each."""

    def __init__(self, holder: Path, arrays: Mapping[str, Block], rows: int, filled: int) -> None:
        self.holder, self.arrays = holder, arrays
        self.rows, self.filled_rows = rows, filled


def ring_arrays(
    holdings: Iterable[Holding],
) -> list[tuple[RingArrays, TransitionContent]]:
    """All such buffers among what variables of the program lead to."""
    # one array a name: of many instances, or of a list of arrays, one is looked at
    groups: dict[Path, dict[Path, Block]] = {}
    for holding in holdings:
        for block in holding.blocks if holding.source is Source.PATH else ():
            if block.where.parent is not None and _may_be_rows(block):
                groups.setdefault(block.where.parent, {}).setdefault(block.where, block)
    several = [list(group.values()) for group in groups.values() if len(group) > 1]
    several = [group for group in several if len(group) <= _MOST_ARRAYS][:_MOST_GROUPS]
    if not several:
        return []
    with OwnMemory() as memory, ResidentPages(os.getpid()) as pages:
        if pages.method == "smaps":  # where pages are is not known, and none may be touched
            return []
        found = [_recognized(group, memory, pages) for group in several]
    return [one for one in found if one is not None]


def _may_be_rows(block: Block) -> bool:
    storage = block.storage
    return (
        storage.address is not None
        and not storage.pinned_by_view
        and bool(storage.shape)
        and storage.shape[0] >= _LEAST_ROWS
        and storage.reserved_bytes % storage.shape[0] == 0
    )


def _recognized(
    blocks: list[Block], memory: OwnMemory, pages: ResidentPages
) -> tuple[RingArrays, TransitionContent] | None:
    """The first pair whose rows follow each other."""
    for one, two in permutations(blocks, 2):
        first, second = one.storage, two.storage
        is_alike = (first.shape, first.dtype) == (second.shape, second.dtype)
        if not is_alike or len(first.shape) < 2 or prod(first.shape[1:]) < 2:
            continue
        try:
            filled = _filled_rows(_rows_of(one), memory, pages)
            share = _following(_rows_of(one), _rows_of(two), filled, memory)
        except OSError:  # freed meanwhile
            continue
        if share is not None:
            return _described(one, two, blocks, filled, share)
    return None


def _rows_of(block: Block) -> tuple[int, int, int]:
    """Address, rows, bytes of a row."""
    storage = block.storage
    return storage.address or 0, storage.shape[0], storage.reserved_bytes // storage.shape[0]


def _filled_rows(rows: tuple[int, int, int], memory: OwnMemory, pages: ResidentPages) -> int:
    """Rows before the first that is all zeros; rows are filled from the first one on.

    Only pages that the program has touched are read: a read would touch others.
    """
    address, count, size = rows
    touched = pages.resident_ranges(address, address + count * size)
    if not touched or touched[0][0] > address:
        return 0
    low, high = 0, min(count, (touched[0][1] - address) // size)
    while low < high:
        middle = (low + high) // 2
        # three in a row: an observation of zeros in the middle is no end
        start, some = address + middle * size, min(3, high - middle)
        if any(memory.read(start, min(some * size, _MOST_ROW_BYTES))):
            low = middle + 1
        else:
            high = middle
    return low


def _following(
    first: tuple[int, int, int], second: tuple[int, int, int], filled: int, memory: OwnMemory
) -> float | None:
    """Share of the steps after which the next row begins anew; None where rows do not follow."""
    if filled < _LEAST_FILLED:
        return None
    size = min(first[2], _MOST_ROW_BYTES)
    probes = matches = 0
    for number in range(_PROBES):
        at = number * (filled - 2) // (_PROBES - 1)
        ends = memory.read(second[0] + at * second[2], size)  # filled as the first is
        if not any(ends):
            continue
        probes += 1
        matches += ends == memory.read(first[0] + (at + 1) * first[2], size)
    is_sure = matches >= _LEAST_MATCHES and 2 * matches >= probes
    return 1 - matches / probes if is_sure else None


def _described(
    one: Block, two: Block, blocks: list[Block], filled: int, breaks: float
) -> tuple[RingArrays, TransitionContent]:
    rows = one.storage.shape[0]
    holder = one.where.parent or one.where
    arrays = {
        block.where.label.lstrip("."): block for block in blocks if block.storage.shape[0] == rows
    }
    fields = []
    for name, block in arrays.items():
        kind = {id(one): "observation", id(two): "next observation"}.get(id(block), "array")
        storage = block.storage
        each = ArrayBytes(0, storage.reserved_bytes // rows, storage.shape[1:], storage.dtype)
        fields.append(FieldContent(name, kind, each.shape, each.dtype, each.size_bytes))
    content = TransitionContent(ARRAYS, tuple(fields), 1 - breaks, breaks)
    return RingArrays(holder, arrays, rows, filled), content
