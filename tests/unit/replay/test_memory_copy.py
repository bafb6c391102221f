"""Copies and comparisons of memory are exact, however arrays are aligned, strided or typed."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramledger.replay.storage.backing import Memory
from ramledger.replay.storage.memory_compare import same_bytes, same_items
from ramledger.replay.storage.memory_copy import LARGE_BYTES, copy_into, copy_windows

KINDS = ("uint8", "bool", "float16", "float32", "int64", "complex64", "complex128")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source_offset", [0, 1, 5])
@pytest.mark.parametrize("target_offset", [0, 3])
def test_copies_are_exact_at_any_alignment(
    kind: str, source_offset: int, target_offset: int
) -> None:
    count = LARGE_BYTES + 7
    raw = np.random.default_rng(0).integers(0, 2, (count + 9) * 16, dtype=np.uint8)
    source = raw.view(kind)[source_offset : source_offset + count]
    target = np.zeros(count + 8, kind)
    copy_into(target[target_offset : target_offset + count], source)
    assert target[target_offset : target_offset + count].tobytes() == source.tobytes()
    assert not target[:target_offset].any()
    assert not target[target_offset + count :].any()


def test_nan_and_negative_zero_are_copied_as_they_are() -> None:
    bits = np.full(LARGE_BYTES, 0x7FA00001, np.uint32)  # a signaling NaN
    bits[::2] = 0x80000000
    target = np.zeros(len(bits), np.float32)
    copy_into(target, bits.view(np.float32))
    assert np.array_equal(target.view(np.uint32), bits)


def test_strided_rows_are_copied() -> None:
    stacks = np.random.default_rng(0).integers(0, 256, (40, 4, 1000), dtype=np.uint8)
    target = np.zeros((40, 1000), np.uint8)
    copy_into(target, stacks[:, -1])
    assert np.array_equal(target, stacks[:, -1])


@pytest.mark.parametrize("kind", KINDS)
def test_windows_are_copied(kind: str) -> None:
    rows = np.arange(60).reshape(20, 3).astype(kind)
    first = np.array([0, 7, 16, 7], np.int32)
    target = np.zeros((4, 4, 3), kind)
    copy_windows(rows, first, 4, target)
    for at, begin in enumerate(first):
        assert np.array_equal(target[at], rows[begin : begin + 4])


def test_windows_beyond_32_bits() -> None:
    """3 GiB of address space, of which two rows are touched."""
    rows = Memory().allocate("rows", (3000, 1 << 20), "uint8")
    rows[2999] = 5
    target = np.zeros((1, 1, 1 << 20), np.uint8)
    copy_windows(rows, np.array([2999], np.int32), 1, target)
    assert (target == 5).all()


@given(st.integers(1, 6), st.integers(1, 3000), st.data())
def test_one_changed_byte_is_seen(count: int, width: int, data: Any) -> None:
    left = np.random.default_rng(0).integers(0, 256, (count, 3, width), dtype=np.uint8)
    right = left.copy()
    assert same_bytes(left, right)
    assert same_items(left[:, 1:], right[:, 1:])
    at = data.draw(st.integers(0, math.prod(left.shape) - 1))
    right.reshape(-1)[at] ^= 1
    assert not same_bytes(left, right)
    is_outside = at // width % 3 == 0
    assert same_items(left[:, 1:], right[:, 1:]) == is_outside


def test_items_that_are_one_and_the_same() -> None:
    row = np.arange(3000, dtype=np.uint8)
    repeated = np.broadcast_to(row, (5, 3000))
    assert same_items(repeated, np.tile(row, (5, 1)))
    assert not same_items(repeated, np.tile(row + 1, (5, 1)))
