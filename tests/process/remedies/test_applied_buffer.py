"""The applied buffer beside that of stable-baselines3, step by step: episodes end and restart."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
import gymnasium as gym
from stable_baselines3.common.buffers import ReplayBuffer

from ramledger.remedies import applied_buffer
from ramledger.remedies.applied_buffer import AppliedReplayBuffer
from ramledger.remedies.reporting import Report
from ramledger.replay.buffer import ReplayBuffer as Core

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


class Both:
    """The same steps for a buffer of stable-baselines3 and for ours."""

    def __init__(self, space: Any = SPACE, **options: Any) -> None:
        self.theirs = ReplayBuffer(200, space, ACTIONS, "cpu", **options)
        self.ours = AppliedReplayBuffer(200, space, ACTIONS, "cpu", **options)
        self.is_optimized = options.get("optimize_memory_usage", False)
        # where timeouts are not handled, infos are not looked at: CleanRL gives a dict
        self.infos: Any = [{}] if options.get("handle_timeout_termination", True) else {"a": 1}
        self.added = 0

    def add(self, before: Any, following: Any, done: bool) -> None:
        reward = np.array([float(self.added)])
        for buffer in (self.theirs, self.ours):
            buffer.add(before, following, np.array([1]), reward, np.array([done]), self.infos)
        self.added += 1

    def compare(self) -> None:
        np.random.seed(self.added)
        expected = self.theirs.sample(32)
        np.random.seed(self.added)
        found = self.ours.sample(32)
        assert np.array_equal(expected.observations, found.observations)
        assert np.array_equal(expected.rewards, found.rewards)
        assert np.array_equal(expected.dones, found.dones)
        # what follows an end is multiplied by zero; theirs is the next episode's first there
        goes_on = expected.dones.numpy().ravel() == 0 if self.is_optimized else slice(None)
        assert np.array_equal(expected.next_observations[goes_on], found.next_observations[goes_on])


@pytest.fixture
def sentences(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the remedy says."""
    said: list[str] = []
    report = Report("replay")
    monkeypatch.setattr(report, "_say", lambda text, *_: said.append(text))
    monkeypatch.setattr(AppliedReplayBuffer, "report", report)
    return said


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("resets_later", [False, True])
@pytest.mark.parametrize("compression", ["", "zlib"])
def test_batches_are_the_same(
    monkeypatch: pytest.MonkeyPatch, optimized: bool, resets_later: bool, compression: str
) -> None:
    monkeypatch.setattr(AppliedReplayBuffer, "compression", compression)
    both = Both(optimize_memory_usage=optimized, handle_timeout_termination=not optimized)
    frames = Frames(7, resets_later=resets_later)
    for number in range(500):
        both.add(*frames.step())
        if number % 9 == 8:
            both.compare()
    assert both.ours._frame_stack == 4
    assert both.ours.core.store.cold or not compression


def test_stacks_that_later_share_nothing_are_the_same(sentences: list[str]) -> None:
    both, frames = Both(), Frames(3, resets_later=False)
    for _ in range(40):
        both.add(*frames.step())
    assert sentences[0].startswith("each frame is stored once, stacks of 4 are made when drawn")
    rng = np.random.default_rng(0)
    now = frames.now
    for number in range(450):
        following = rng.integers(0, 255, now.shape, dtype=np.uint8)
        both.add(now, following, number % 50 == 49)
        now = following
        if number % 9 == 8:
            both.compare()


def test_a_failure_on_the_way_to_frames_loses_no_step(
    monkeypatch: pytest.MonkeyPatch, sentences: list[str]
) -> None:
    class Failing(Core):
        def add(self, *args: Any, **kwargs: Any) -> int:
            if self.total_added == 5:
                raise MemoryError("no more")
            return super().add(*args, **kwargs)

    both, frames = Both(), Frames(5, resets_later=False)
    monkeypatch.setattr(applied_buffer, "ReplayBuffer", Failing)
    for number in range(300):
        both.add(*frames.step())
        if number % 9 == 8:
            both.compare()
    assert both.ours._frame_stack == 1
    (said,) = sentences
    assert said.startswith("each observation is stored once (MemoryError)")


def test_numbers_are_cast_as_arrays_cast_them() -> None:
    """Floats for a space of bytes, as some wrappers give them; actions of another type."""
    both, rng = Both(gym.spaces.Box(0, 255, (5,), np.uint8)), np.random.default_rng(1)
    now = rng.random((1, 5)) * 300
    for _ in range(60):
        following = rng.random((1, 5)) * 300
        with np.errstate(invalid="ignore"):
            both.add(now, following, False)
        now = following
    both.compare()
    for buffer in (both.theirs, both.ours):
        buffer.add(now, now, np.array([1.5]), np.array([1.0]), np.array([False]), [{}])
    assert both.ours.actions[60, 0] == both.theirs.actions[60, 0] == 1


def test_what_the_environment_says_is_not_kept(sentences: list[str]) -> None:
    """Infos may hold anything, also what cannot be pickled."""
    ours, frames = AppliedReplayBuffer(200, SPACE, ACTIONS, "cpu"), Frames(5, resets_later=False)
    before, following, done = frames.step()
    info = {"large": object(), "TimeLimit.truncated": True}
    ours.add(before, following, np.array([1]), np.array([1.0]), np.array([done]), [info])
    assert ours._first_steps[0][-1] == [{"TimeLimit.truncated": True}]
    assert not sentences  # nothing is decided after one step
