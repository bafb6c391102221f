"""Who is responsible: decided by who holds what grows."""

import pytest

from ramledger.diagnose.finding import Cause, Culprit
from ramledger.diagnose.responsibility import responsible_for

OWN = {"__main__.Agent", "train.TradingEnv"}


@pytest.mark.parametrize(
    ("cause", "culprit", "added_in", "fault"),
    [
        (Cause.UNBOUNDED_CONTAINER, Culprit("numpy.ndarray", "train.py:log"), (), "your code"),
        (Cause.UNBOUNDED_CONTAINER, Culprit("bytes"), ("train.py:29 in Agent.log",), "your code"),
        (Cause.OBJECT_PINNED, Culprit("__main__.Agent", "<Agent>"), (), "your code"),
        (Cause.OBJECT_PINNED, Culprit("train.TradingEnv", "train.py:envs"), (), "your code"),
        (Cause.OBJECT_PINNED, Culprit("matplotlib.figure.Figure"), (), "library matplotlib"),
        (Cause.OBJECT_PINNED, Culprit("gymnasium.spaces.box.Box"), (), "library gymnasium"),
        (Cause.ALLOCATOR_RETENTION, Culprit("malloc", "allocator/free"), (), "allocator"),
        (Cause.NATIVE_LEAK, Culprit("native memory"), (), "native library"),
        (Cause.GRAPH_RETENTION, Culprit("torch.Tensor"), (), "your code"),
        (Cause.UNKNOWN, Culprit(), (), ""),
    ],
)
def test_who(cause: Cause, culprit: Culprit, added_in: tuple[str, ...], fault: str) -> None:
    found, why = responsible_for(cause, culprit, added_in, "learn", OWN)
    assert found == fault
    assert bool(why) == bool(fault)
