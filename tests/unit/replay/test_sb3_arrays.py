"""What a buffer shows as arrays is what the arrays of stable-baselines3 hold, however indexed."""

from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer as BaselinesReplayBuffer

from ramledger.replay.sb3_buffer import LedgerReplayBuffer
from tests.unit.replay.test_sb3_buffer import (
    ACTIONS,
    OBSERVATIONS,
    STACKS,
    Worlds,
    assert_same_batches,
    fill_both,
)

STEPS, ENVS = 20, 3
SOME, WHICH = np.array([3, 0, 7, 3]), np.array([2, 0, 1, 1])
KEYS: tuple[Any, ...] = (
    4, -1, slice(2, 9), slice(None), slice(None, None, -3), SOME, [1, 5], ...,
    (3, 1), (-1, 0), (SOME, WHICH), (SOME[:, None], WHICH), (SOME, 1), (slice(1, 4), WHICH),
    (SOME - 5, WHICH), np.arange(STEPS) % 3 == 0, (np.arange(STEPS) > 4, 2),
    np.arange(STEPS * ENVS).reshape(STEPS, ENVS) % 2 == 0,
)  # fmt: skip
DEEPER: tuple[Any, ...] = (
    (SOME, WHICH, slice(None)), (SOME, WHICH, 0), (SOME, WHICH, WHICH * 0), (2, 1, -1),
    (slice(None), slice(None), [0, 1]), (SOME, slice(None), 0), (..., 1), (None, 3),
)  # fmt: skip


def filled(name: str, steps: int) -> tuple[Any, Any]:
    space, stack = OBSERVATIONS[name], STACKS.get(name, 1)
    action = ACTIONS["discrete" if name == "stack" else "box"]
    kind = DictReplayBuffer if name == "dict" else BaselinesReplayBuffer
    theirs = kind(STEPS * ENVS, space, action, "cpu", ENVS)
    mine = LedgerReplayBuffer(STEPS * ENVS, space, action, "cpu", ENVS, frame_stack=stack)
    fill_both(mine, theirs, Worlds(space, ENVS, stack), steps)
    return mine, theirs


def parts(buffer: Any, name: str) -> dict[str, Any]:
    found = getattr(buffer, name)
    return found if isinstance(found, dict) else {"": found}


@pytest.mark.parametrize("steps", [0, 7, STEPS, 53])
@pytest.mark.parametrize("name", ["vector", "float64", "stack", "dict"])
def test_arrays_are_those_of_stable_baselines3(name: str, steps: int) -> None:
    mine, theirs = filled(name, steps)
    for field in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        is_deep = field.endswith("observations")
        ours = parts(mine, field)
        for part, wanted in parts(theirs, field).items():
            found = ours[part]
            assert (found.shape, found.dtype, len(found)) == (wanted.shape, wanted.dtype, STEPS)
            assert np.array_equal(np.asarray(found), wanted)
            assert found.sum() == wanted.sum()
            for key in KEYS + DEEPER if is_deep else KEYS:
                assert np.array_equal(found[key], wanted[key]), (field, part, key)
                assert found[key].dtype == wanted.dtype
            assert np.array_equal(1 - found, 1 - wanted)
            assert np.array_equal(found == 0, wanted == 0)


def test_a_place_that_does_not_exist_is_an_error() -> None:
    mine, _ = filled("vector", 30)
    for key in (STEPS, (0, ENVS), (np.array([STEPS]), np.array([0]))):
        with pytest.raises(IndexError):
            mine.observations[key]
    with pytest.raises(TypeError, match="stored once"):
        mine.observations[0] = 1.0


@pytest.mark.parametrize("steps", [11, 53])
def test_ends_can_be_set_as_stable_baselines3_does(steps: int) -> None:
    mine, theirs = filled("vector", steps)
    last = (theirs.pos - 1) % STEPS
    for buffer in (mine, theirs):  # a second `learn`, then `truncate_last_trajectory`
        buffer.dones[last] = True
        buffer.dones[buffer.pos - 3, 1] = True
        buffer.timeouts[buffer.pos - 3, 1] = True
        buffer.dones[buffer.pos - 4, 2] = False
        buffer.timeouts[buffer.pos - 4, 2] = False
    assert np.array_equal(np.asarray(mine.dones), theirs.dones)
    assert np.array_equal(np.asarray(mine.timeouts), theirs.timeouts)
    assert_same_batches(mine, theirs)
    fill_both(mine, theirs, Worlds(OBSERVATIONS["vector"], ENVS, 1), 9)
    assert_same_batches(mine, theirs)


def test_what_was_set_is_saved(tmp_path: Any) -> None:
    mine, _ = filled("vector", 30)
    mine.save(str(tmp_path))
    mine.dones[2] = True
    wanted = np.asarray(mine.dones)
    mine.save(str(tmp_path))
    mine.restore(str(tmp_path))
    assert wanted[2].all()
    assert np.array_equal(np.asarray(mine.dones), wanted)
