"""The applied buffer beside that of stable-baselines3, step by step: episodes end and restart."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
import gymnasium as gym
from stable_baselines3.common.buffers import ReplayBuffer

from ramledger.remedies.applied_buffer import AppliedReplayBuffer

SPACE = gym.spaces.Box(0, 255, (4, 20, 20), np.uint8)
ACTIONS: gym.spaces.Space[Any] = gym.spaces.Discrete(3)


class Frames:
    """Observations of stacked frames, as vectorized environments give them."""

    def __init__(self, seed: int, *, resets_later: bool) -> None:
        self._rng = np.random.default_rng(seed)
        self._resets_later = resets_later  # in a step of its own, as gymnasium 1 does
        self._has_ended = False
        self.now = self._first()

    def _frame(self) -> Any:
        return self._rng.integers(0, 255, (1, 1, 20, 20), dtype=np.uint8)

    def _first(self) -> Any:
        return np.concatenate([self._frame()] * 4, axis=1)

    def step(self) -> tuple[Any, Any, bool]:
        before = self.now
        if self._has_ended and self._resets_later:
            following, done = self._first(), False
        else:
            following = np.concatenate([before[:, 1:], self._frame()], axis=1)
            done = bool(self._rng.random() < 0.1)
        self._has_ended = done
        self.now = following if self._resets_later or not done else self._first()
        return before, following, done


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("resets_later", [False, True])
def test_batches_are_the_same(optimized: bool, resets_later: bool) -> None:
    options: dict[str, Any] = {"device": "cpu", "optimize_memory_usage": optimized,
                               "handle_timeout_termination": not optimized}  # fmt: skip
    theirs = ReplayBuffer(200, SPACE, ACTIONS, **options)
    ours = AppliedReplayBuffer(200, SPACE, ACTIONS, **options)
    frames = Frames(7, resets_later=resets_later)
    for number in range(500):
        before, following, done = frames.step()
        step: Any = (before, following, np.array([1]), np.array([float(number)]),
                     np.array([done]), [{}])  # fmt: skip
        theirs.add(*step)
        ours.add(*step)
        if number % 9 == 8:
            np.random.seed(number)
            expected = theirs.sample(32)
            np.random.seed(number)
            found = ours.sample(32)
            assert np.array_equal(expected.observations, found.observations)
            assert np.array_equal(expected.rewards, found.rewards)
            assert np.array_equal(expected.dones, found.dones)
            # what follows an end is multiplied by zero; theirs is the next episode's first there
            goes_on = expected.dones.numpy().ravel() == 0 if optimized else slice(None)
            assert np.array_equal(
                expected.next_observations[goes_on], found.next_observations[goes_on]
            )
    assert ours._frame_stack == 4
