"""Short containers that hold much are told with what is below them, at any depth."""

from typing import Any

import numpy as np

from ramledger.objects.holdings import Container
from ramledger.objects.names.walk_roots import Root
from ramledger.objects.walk import ObjectWalk
from ramledger.units import MIB


class Agent:
    def __init__(self, frames: int) -> None:
        self.history = [np.ones(MIB, np.uint8) for _ in range(frames)]


def told(**variables: Any) -> dict[str, Container]:
    exploration = ObjectWalk()
    exploration.walk(
        [[Root(f"train.py:{name}", f"train.py:{name}", value) for name, value in variables.items()]]
    )
    return {container.path: container for container in exploration.small.that_hold_much()}


def test_a_dictionary_of_arrays() -> None:
    archive = {i: np.full(MIB, i, np.uint8) for i in range(5)}
    found = told(archive=archive)["train.py:archive"]
    assert (found.type, found.length, found.element_type) == ("dict", 5, "numpy.ndarray")
    assert 5 * MIB <= found.bytes < 5.01 * MIB


def test_a_container_counts_what_its_elements_hold() -> None:
    found = told(agents=[Agent(3), Agent(4)])
    assert found["train.py:agents"].length == 2
    assert found["train.py:agents"].element_type.endswith("Agent")
    assert 7 * MIB <= found["train.py:agents"].bytes < 7.01 * MIB
    inner = found["train.py:agents[*].history"]
    assert inner.length == 7
    assert inner.bytes <= found["train.py:agents"].bytes


def test_outer_ones_come_first() -> None:
    paths = list(told(videos=[[np.ones(MIB, np.uint8) for _ in range(3)] for _ in range(4)]))
    assert paths[:2] == ["train.py:videos", "train.py:videos[*]"]


def test_what_is_shared_is_counted_once_and_little_is_not_told() -> None:
    shared = np.ones(MIB, np.uint8)
    found = told(one=[shared, shared], small=[1, 2, 3])
    assert 1 * MIB <= found["train.py:one"].bytes < 1.01 * MIB
    assert "train.py:small" not in found


def test_a_short_deque_keeps_its_limit() -> None:
    from collections import deque

    found = told(replay=deque((np.ones(MIB, np.uint8) for _ in range(4)), maxlen=9))
    assert found["train.py:replay"].capacity == 9


def test_deques_of_one_name_have_their_limits_together() -> None:
    from collections import deque

    def filled(limit: int | None) -> deque[np.ndarray[Any, Any]]:
        return deque((np.ones(MIB, np.uint8) for _ in range(3)), maxlen=limit)

    found = told(shelves={1: filled(4), 2: filled(6)}, mixed={1: filled(4), 2: filled(None)})
    assert (found["train.py:shelves[*]"].length, found["train.py:shelves[*]"].capacity) == (6, 10)
    assert found["train.py:mixed[*]"].capacity is None
