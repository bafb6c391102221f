"""Who is responsible: decided by who holds what grows."""

import pytest

from ramledger.diagnose.finding import Cause, Culprit
from ramledger.diagnose.responsibility import responsible_for

OWN = {"__main__.Agent", "train.TradingEnv"}


@pytest.mark.parametrize(
    ("cause", "culprit", "phase", "accounts", "fault"),
    [
        (Cause.UNBOUNDED_CONTAINER, Culprit("numpy.ndarray", "train.py:log"), "", (), "your code"),
        (Cause.OBJECT_PINNED, Culprit("__main__.Agent", "<Agent>"), "", (), "your code"),
        (Cause.OBJECT_PINNED, Culprit("train.TradingEnv", "train.py:envs"), "", (), "environment"),
        (Cause.OBJECT_PINNED, Culprit("matplotlib.figure.Figure"), "", (), "library matplotlib"),
        (Cause.ALLOCATOR_RETENTION, Culprit("malloc", "allocator/free"), "", (), "allocator"),
        (Cause.NATIVE_LEAK, Culprit("native memory"), "collect", ("env/Race",), "environment"),
        (Cause.NATIVE_LEAK, Culprit("native memory"), "render", (), "environment"),
        (Cause.NATIVE_LEAK, Culprit("native memory"), "train", (), "native library"),
        (Cause.GRAPH_RETENTION, Culprit("torch.Tensor"), "learn", (), "your code"),
        (Cause.UNKNOWN, Culprit(), "", (), ""),
    ],
)
def test_who(
    cause: Cause, culprit: Culprit, phase: str, accounts: tuple[str, ...], fault: str
) -> None:
    found, why = responsible_for(cause, culprit, phase, OWN, accounts)
    assert found == fault
    assert bool(why) == bool(fault)
