"""Rollouts without a copy: the same batches as from an array, and an array for who wants one."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from ramledger.remedies.byte_codes import BY_255, NO_CODE, WHOLE, first_code
from ramledger.remedies.rollout_rows import FlatRows, RolloutRows, no_copy

STEPS, ENVS, SIDE = 90, 3, 16


def flattened(array: Any) -> Any:
    """As stable-baselines3 does it."""
    shape = array.shape
    return array.swapaxes(0, 1).reshape(shape[0] * shape[1], *shape[2:])


def stacked(stack: int, channels: int, rng: np.random.Generator, side: int = SIDE) -> Any:
    """Frames that walk on; now and then an episode begins, with zeros before its first frame."""
    found = np.zeros((STEPS, ENVS, stack * channels, side, side), np.uint8)
    now = np.zeros((ENVS, stack * channels, side, side), np.uint8)
    for step in range(STEPS):
        begins = rng.random(ENVS) < 0.08
        now = np.roll(now, -channels, axis=1)
        now[begins] = 0
        now[:, -channels:] = rng.integers(0, 255, (ENVS, channels, side, side))
        found[step] = now
    return found


def stored(array: Any, stack: int = 0, divisor: int | None = None) -> RolloutRows:
    steps, envs, *shape = array.shape
    code = first_code(array.dtype) if divisor is None else divisor
    rows = RolloutRows(steps, envs, tuple(shape), array.dtype, stack, code)
    for step in range(steps):
        rows[step] = array[step]
    return rows


def same_bits(found: Any, wanted: Any) -> bool:
    return bool(found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes())


def assert_same_batches(rows: RolloutRows, array: Any) -> None:
    flat, wanted = flattened(rows), flattened(array)
    rng = np.random.default_rng(9)
    for _ in range(5):
        drawn = rng.permutation(len(wanted))[:40]
        assert same_bits(flat[drawn], wanted[drawn])
    everything = np.arange(len(wanted))
    assert same_bits(flat[everything], wanted)


@pytest.mark.parametrize(
    ("stack", "channels", "expected"), [(4, 1, 4), (4, 3, 4), (2, 1, 2), (1, 3, 1), (1, 1, 1)]
)
@pytest.mark.parametrize("known", [False, True])
def test_batches_are_the_same(stack: int, channels: int, expected: int, known: bool) -> None:
    rng = np.random.default_rng(stack * 10 + channels)
    array = stacked(stack, channels, rng)
    rows = stored(array, expected if known else 0)
    assert rows.stack == expected
    assert rows.is_compact == (expected > 1)
    assert_same_batches(rows, array)
    if expected > 1:
        assert isinstance(flattened(rows), FlatRows)
        begun = int((array[1:, :, :-channels] != array[:-1, :, channels:]).any((2, 3, 4)).sum())
        frames = STEPS * ENVS + (begun + ENVS) * (stack - 1)
        assert rows.used_bytes == frames * channels * SIDE * SIDE


def test_frames_of_an_odd_number_of_bytes() -> None:
    array = stacked(3, 1, np.random.default_rng(2), side=17)
    rows = stored(array)
    assert rows.stack == 3
    assert_same_batches(rows, array)


def test_vectors_are_not_copied() -> None:
    array = np.random.default_rng(1).random((50, 4, 7)).astype(np.float32)
    rows = stored(array)
    assert not rows.is_compact
    flat = flattened(rows)
    assert isinstance(flat, np.ndarray)
    assert np.shares_memory(flat, rows.as_array())
    assert same_bits(flat, flattened(array))
    assert np.shares_memory(flattened(zeros := no_copy(5, 3, (2,), np.float32)), zeros)


def test_a_wrong_guess_takes_no_more_than_an_array() -> None:
    rng = np.random.default_rng(3)
    array = rng.integers(0, 255, (STEPS, ENVS, 4, SIDE, SIDE), dtype=np.uint8)
    rows = stored(array, 4)
    assert rows.used_bytes == array.nbytes
    assert_same_batches(rows, array)


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_that_are_bytes_are_stored_as_bytes(stack: int, dtype: Any) -> None:
    pixels = stacked(stack, 1, np.random.default_rng(4))
    for divisor, array in (
        (WHOLE, pixels.astype(dtype)),
        (BY_255, pixels.astype(dtype) / dtype(255)),
        (BY_255, (pixels / 255.0).astype(dtype)),
    ):
        rows = stored(array)
        assert (rows.divisor, rows.stack) == (divisor, stack)
        assert rows.used_bytes < array.nbytes / array.itemsize / stack * 1.5
        assert_same_batches(rows, array)


def test_black_images_do_not_decide_what_bytes_are_divided_by() -> None:
    pixels = stacked(1, 1, np.random.default_rng(5))
    pixels[:20] = 255 * (pixels[:20] > 128)
    pixels[:10] = 0
    array = pixels.astype(np.float32) / np.float32(255)
    rows = stored(array)
    assert rows.divisor == BY_255
    assert_same_batches(rows, array)


@pytest.mark.parametrize("odd", [0.3, -1.0, 256.0, -0.0, float("nan"), float("inf"), 1e-45])
@pytest.mark.parametrize("stack", [1, 4])
def test_the_first_number_that_is_no_byte_loses_nothing(odd: float, stack: int) -> None:
    array = stacked(stack, 1, np.random.default_rng(6)).astype(np.float32)
    array[70, 1, -1, 3, 5] = odd
    rows = stored(array)
    assert rows.divisor == NO_CODE
    assert rows.is_compact == (stack > 1)
    assert_same_batches(rows, array)


def test_it_is_an_array_for_who_wants_one() -> None:
    array = stacked(4, 1, np.random.default_rng(7))
    for flat in (False, True):
        rows: Any = stored(array)
        wanted = array.copy()
        if flat:
            rows, wanted = flattened(rows), flattened(wanted)
        copies = [copy.deepcopy(rows), pickle.loads(pickle.dumps(rows))]
        assert all(type(one) is np.ndarray and np.array_equal(one, wanted) for one in copies)
        assert (len(rows), rows.shape, rows.dtype) == (len(wanted), wanted.shape, wanted.dtype)
        assert np.array_equal(np.asarray(rows), wanted)
        rows[3] = 7
        wanted[3] = 7
        rows[5][...] = 8
        wanted[5] = 8
        assert np.array_equal(rows[2:9], wanted[2:9])
        assert float(rows.mean()) == float(wanted.mean())
    assert np.array_equal(array, stored(array).as_array())


def test_steps_out_of_order_and_rollouts_half_full() -> None:
    array = stacked(4, 1, np.random.default_rng(8))
    for first in (3, 40):
        rows = RolloutRows(STEPS, ENVS, array.shape[2:], array.dtype, 0, NO_CODE)
        for step in range(first):
            rows[step] = array[step]
        half = np.zeros_like(array)
        half[:first] = array[:first]
        assert np.array_equal(copy.deepcopy(rows), half)
        rows[1] = half[1] = array[60]
        assert np.array_equal(np.asarray(rows), half)
    with pytest.raises(ValueError, match="broadcast"):
        stored(array)[0] = np.zeros((7, 7))
    with pytest.raises(IndexError):
        stored(array)[STEPS] = array[0]
