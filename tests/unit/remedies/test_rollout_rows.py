"""Rollouts without a copy: the same batches as from an array."""

from typing import Any

import numpy as np
import pytest

from ramledger.remedies.rollout_rows import FlatRows, RolloutRows

STEPS, ENVS, SIDE = 90, 3, 16


def flattened(array: Any) -> Any:
    """As stable-baselines3 does it."""
    shape = array.shape
    return array.swapaxes(0, 1).reshape(shape[0] * shape[1], *shape[2:])


def stacked(stack: int, channels: int, rng: np.random.Generator) -> Any:
    """Frames that walk on; now and then an episode begins, with zeros before its first frame."""
    found = np.zeros((STEPS, ENVS, stack * channels, SIDE, SIDE), np.uint8)
    now = np.zeros((ENVS, stack * channels, SIDE, SIDE), np.uint8)
    for step in range(STEPS):
        begins = rng.random(ENVS) < 0.08
        now = np.roll(now, -channels, axis=1)
        now[begins] = 0
        now[:, -channels:] = rng.integers(0, 255, (ENVS, channels, SIDE, SIDE))
        found[step] = now
    return found


@pytest.mark.parametrize(
    ("stack", "channels", "expected"), [(4, 1, 4), (4, 3, 4), (2, 1, 2), (1, 3, 1), (1, 1, 1)]
)
@pytest.mark.parametrize("known", [False, True])
def test_batches_are_the_same(stack: int, channels: int, expected: int, known: bool) -> None:
    rng = np.random.default_rng(stack * 10 + channels)
    array = stacked(stack, channels, rng)
    rows = RolloutRows(STEPS, ENVS, array.shape[2:], array.dtype, expected if known else 0)
    for step in range(STEPS):
        rows[step] = array[step]
    assert rows.stack == expected
    flat = flattened(rows)
    assert isinstance(flat, FlatRows)
    wanted = flattened(array)
    for _ in range(5):
        drawn = rng.permutation(STEPS * ENVS)[:40]
        assert np.array_equal(flat[drawn], wanted[drawn])
    assert np.array_equal(np.asarray(rows), array)
    assert np.array_equal(np.asarray(flat), wanted)
    assert np.array_equal(rows[3:9], array[3:9])
    assert float(rows.mean()) == float(array.mean())
    if expected > 1:
        assert rows.nbytes * expected == array.nbytes


def test_vectors_are_not_copied() -> None:
    array = np.random.default_rng(1).random((50, 4, 7)).astype(np.float32)
    rows = RolloutRows(50, 4, (7,), np.float32, 0)
    for step in range(50):
        rows[step] = array[step]
    assert rows.stack == 1
    drawn = np.arange(0, 200, 3)
    assert np.array_equal(flattened(rows)[drawn], flattened(array)[drawn])


def test_a_wrong_guess_costs_memory_and_nothing_else() -> None:
    rng = np.random.default_rng(3)
    array = rng.integers(0, 255, (STEPS, ENVS, 4, SIDE, SIDE), dtype=np.uint8)
    rows = RolloutRows(STEPS, ENVS, array.shape[2:], array.dtype, 4)
    for step in range(STEPS):
        rows[step] = array[step]
    drawn = rng.permutation(STEPS * ENVS)
    assert np.array_equal(flattened(rows)[drawn], flattened(array)[drawn])
