"""Resident is what the page table says and reserved is what was asked for, for every kind of block.

Whatever part of it was touched, and however the program holds it.
"""

import pytest

from ramledger.ledger import Entry, Statement, is_below
from tests.support.held_program import HeldProgram
from tests.support.kernel_truth import resident_bytes

MIB = 1 << 20
SIZES = (8 * MIB, 33_333_333)

CASES = [
    *(("zeros", fraction, size) for fraction in (0, 0.1, 0.37, 0.5, 1) for size in SIZES),
    ("scattered", 0.25, 32 * MIB),
    ("only_read", 1, 32 * MIB),
    *(("view", fraction, 32 * MIB) for fraction in (0.37, 1)),
    *(("tensor", fraction, 32 * MIB) for fraction in (0, 0.37)),
    ("tensor_slice", 0.37, 32 * MIB),
    ("held_bytes", 1, 16 * MIB),
]
BACKED = [
    *(("mapped_file", fraction, 32 * MIB) for fraction in (0, 0.37, 1)),
    *(("shared", fraction, 32 * MIB) for fraction in (0, 0.37, 1)),
]
# of the object that stands beside the block, and of a view's
OBJECT_BYTES = 1024


@pytest.mark.parametrize(("kind", "fraction", "size"), CASES)
def test_anonymous_blocks(kind: str, fraction: float, size: int) -> None:
    entries, truth = _measured(kind, fraction, size, anonymous=True)
    _check(entries, truth, size)


@pytest.mark.parametrize(("kind", "fraction", "size"), BACKED)
def test_blocks_with_a_file_behind_them(kind: str, fraction: float, size: int) -> None:
    entries, truth = _measured(kind, fraction, size, anonymous=False)
    _check(entries, truth, size)
    assert truth >= fraction * size


def _measured(kind: str, fraction: float, size: int, *, anonymous: bool) -> tuple[list[Entry], int]:
    with HeldProgram("partly_touched", "claimed", kind, str(fraction), str(size)) as program:
        statement = Statement.from_dict(program.statement())
        address, _ = program.truth["arrays"]["held"]
        truth = resident_bytes(program.pid, address, address + size, anonymous=anonymous)
    return [entry for entry in statement.entries if is_below(entry.account, "held")], truth


def _check(entries: list[Entry], truth: int, size: int) -> None:
    reserved = sum(entry.reserved_bytes for entry in entries)
    resident = sum(entry.resident_bytes for entry in entries)
    assert size <= reserved <= size + OBJECT_BYTES
    assert abs(resident - truth) <= max(0.01 * truth, OBJECT_BYTES)


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_the_large_object_says_how_much_of_it_is_there(fraction: float) -> None:
    size = 64 * MIB
    with HeldProgram("partly_touched", "bare", "zeros", str(fraction), str(size)) as program:
        document = program.statement()
        address, _ = program.truth["arrays"]["held"]
        truth = resident_bytes(program.pid, address, address + size)
    (large,) = document["large_objects"]
    assert large["path"] == "main():held"
    assert large["reserved_bytes"] == size
    assert large["resident_bytes"] == pytest.approx(truth, rel=0.01)
    assert large["fill"] == pytest.approx(truth / size, abs=0.01)
