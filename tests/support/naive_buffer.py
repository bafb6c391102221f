"""The oracle: a list a transition, every observation in full, and ways to make episodes."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ramledger.replay import Batch, ReplayBuffer

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Step:
    """A transition as it was given to the buffer."""

    obs: Any
    action: Any
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool


@dataclass
class NaiveBuffer:
    """What a replay buffer means: for every environment the latest transitions, in full."""

    slots: int
    n_envs: int = 1
    steps: list[list[Step]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = [[] for _ in range(self.n_envs)]

    def add(self, env: int, step: Step) -> None:
        self.steps[env].append(step)

    def stored(self) -> list[list[Step]]:
        return [steps[-self.slots :] for steps in self.steps]


def same(a: Any, b: Any) -> bool:
    """Equal bytes, shape and dtype, through dicts."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    first, second = np.asarray(a), np.asarray(b)
    return (first.shape, first.dtype, first.tobytes()) == (
        second.shape,
        second.dtype,
        second.tobytes(),
    )


def pick(value: Any, at: int) -> Any:
    return (
        {name: array[at] for name, array in value.items()} if isinstance(value, dict) else value[at]
    )


def assert_is(batch: Batch, at: int, step: Step) -> None:
    """Sample `at` of the batch is this transition, bit by bit."""
    assert same(pick(batch.obs, at), step.obs)
    assert same(pick(batch.next_obs, at), step.next_obs)
    assert same(batch.action[at], np.asarray(step.action, batch.action.dtype))
    assert batch.reward[at] == np.float32(step.reward)
    assert bool(batch.terminated[at]) == step.terminated
    assert bool(batch.truncated[at]) == step.truncated


def assert_holds(buffer: ReplayBuffer, naive: NaiveBuffer, *, all_of_it: bool = True) -> None:
    """The buffer holds the latest of each environment, in order; all that fit, if told so."""
    stored = naive.stored()
    sizes = [s.added - s.oldest for s in buffer.store.streams]
    assert len(buffer) == sum(sizes) <= buffer.capacity
    if all_of_it:
        assert sizes == [len(steps) for steps in stored]
    wanted = [
        step
        for steps, size in zip(stored, sizes, strict=True)
        for step in steps[len(steps) - size :]
    ]
    places = buffer.ordered()
    assert len(places) == len(wanted)
    if wanted:
        batch = buffer.get(places)
        for at, step in enumerate(wanted):
            assert_is(batch, at, step)
