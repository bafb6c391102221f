"""Whatever objects refer to each other, in circles too: all are read, arrays are booked once."""

import sys
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ramledger.objects.names.walk_roots import Root
from ramledger.objects.process_objects import read_process_objects
from ramledger.objects.walk import ObjectWalk

ARRAY_BYTES = 128 * 1024


class Plain:
    pass


class Slotted:
    __slots__ = ("first", "second")
    first: Any
    second: Any


def _plain(held: list[Any]) -> Any:
    made = Plain()
    for number, one in enumerate(held):
        setattr(made, f"a{number}", one)
    return made


def _slotted(held: list[Any]) -> Any:
    made = Slotted()
    if held:
        made.first = held[0]
    made.second = held[1:]
    return made


def _closure(held: list[Any]) -> Any:
    return lambda: held


def _default(held: list[Any]) -> Any:
    def function(kept: Any = held) -> Any:
        return kept

    return function


def _generator(held: list[Any]) -> Any:
    def waiting() -> Any:
        kept = held
        yield kept

    made = waiting()
    next(made)
    return made


KINDS: list[Callable[[list[Any]], Any]] = [
    list,
    tuple,
    deque,
    lambda held: dict(enumerate(held)),
    lambda held: {f"k{number}": one for number, one in enumerate(held)},
    lambda held: held * 200,
    lambda held: iter(held),
    _plain,
    _slotted,
    _closure,
    _default,
    _generator,
]
Node = tuple[int, list[int]]
NODES = st.lists(
    st.tuples(st.integers(0, len(KINDS) - 1), st.lists(st.integers(0, 10**6), max_size=6)),
    min_size=1,
    max_size=60,
)


def built(nodes: list[Node]) -> tuple[list[Any], int]:
    """The graph, and how many arrays are in it: every third node holds one."""
    made: list[Any] = []
    circles: list[list[Any]] = []
    arrays = 0
    for number, (kind, references) in enumerate(nodes):
        held = [made[reference % len(made)] for reference in references] if made else []
        if number % 3 == 0:
            held.append(np.ones(ARRAY_BYTES, np.uint8))
            arrays += 1
        circles.append(held)
        made.append(KINDS[kind](held))
    for held in circles[::5]:
        held.append(made[-1])
    return made, arrays


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes=NODES)
def test_every_array_of_a_graph_is_booked_once(nodes: list[Node]) -> None:
    made, arrays = built(nodes)
    exploration = ObjectWalk()
    exploration.walk([[Root("train.py:made", "train.py:made", made)]])
    blocks = [block for holding in exploration.holdings.values() for block in holding.blocks]
    ours = [block for block in blocks if block.storage.reserved_bytes == ARRAY_BYTES]
    assert exploration.unread == 0
    assert exploration.complete
    assert len(ours) == arrays
    assert len({block.storage.address for block in ours}) == arrays
    assert all(block.path.startswith("train.py:made") for block in ours)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes=NODES, census=st.booleans())
def test_a_snapshot_of_a_graph_reads_everything(nodes: list[Node], census: bool) -> None:
    module = ModuleType("generated_train")
    module.__file__ = "/home/user/generated_train.py"
    sys.modules["generated_train"] = module
    try:
        module.__dict__["made"], _ = built(nodes)
        view = read_process_objects(objects=census)
        assert view.unread == 0
        assert view.complete
        assert any("generated_train.py:made" in one.account for one in view.holdings)
    finally:
        del sys.modules["generated_train"]
