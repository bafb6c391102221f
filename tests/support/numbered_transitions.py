"""Transitions whose content follows from their number, so that a restored buffer can be checked."""

from pathlib import Path
from typing import Any

import numpy as np

from ramledger.replay import Field, ReplayBuffer, Schema

WIDTH = 40
EPISODE = 50
SCHEMA = Schema(Field((WIDTH,)), action=Field((3,)))


def observation(number: int, later: bool) -> Any:
    """The observation before, or after, step `number`; episodes have EPISODE steps."""
    episode, step = divmod(number, EPISODE)
    return np.full(WIDTH, episode * (EPISODE + 1) + step + later, np.float32)


def add(buffer: ReplayBuffer, first: int, count: int) -> None:
    for number in range(first, first + count):
        buffer.add(
            observation(number, False), np.full(3, number, np.float32), float(number),
            observation(number, True), number % EPISODE == EPISODE - 1,
        )  # fmt: skip


def assert_true(buffer: ReplayBuffer) -> None:
    """Every stored transition is what its number says, and none of the latest is missing."""
    total = buffer.total_added
    batch = buffer.get(buffer.ordered())
    numbers = np.arange(total - len(buffer), total)
    assert len(buffer) == min(total, buffer.capacity)
    assert np.array_equal(batch.reward, numbers.astype(np.float32))
    episode, step = np.divmod(numbers, EPISODE)
    here = (episode * (EPISODE + 1) + step).astype(np.float32)[:, None]
    assert (np.asarray(batch.obs) == here).all()
    assert (np.asarray(batch.next_obs) == here + 1).all()
    assert np.array_equal(batch.terminated, step == EPISODE - 1)


def filled(total: int, capacity: int = 3000, **arguments: Any) -> ReplayBuffer:
    buffer = ReplayBuffer(SCHEMA, capacity, seed=11, **arguments)
    add(buffer, 0, total)
    return buffer


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".seg", ".json"))
