"""Counting live objects remembers little beside the heap that it counts."""

from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ramledger.objects.array_search import ArraySearch
from ramledger.objects.live_objects import LiveObjects
from ramledger.objects.process_objects import read_process_objects


class Thing:
    """A class of the user's own, with an array."""

    def __init__(self) -> None:
        self.values = np.zeros(4)


def test_arrays_with_one_holder_are_not_remembered() -> None:
    """Their reference count tells; our own lists count too, so this holds us to their number."""
    kept = [[np.zeros(4)] for _ in range(1_000)]
    search = ArraySearch(LiveObjects())
    search.count_below(kept)
    assert search._seen == set()


def test_arrays_whose_holders_are_all_seen_at_once_are_not_remembered() -> None:
    frames = [np.zeros(4) for _ in range(1_001)]
    kept = [[now, after] for now, after in pairwise(frames)]
    del frames
    search = ArraySearch(LiveObjects())
    search.count_below(kept)
    assert search._seen == set()
    search.count_below(kept[:10])
    assert len(search._seen) == 1  # the frame that the eleventh holds too


def test_instances_in_a_long_container_are_booked_once() -> None:
    things = [Thing() for _ in range(1_000)]
    accounts = {holding.account for holding in read_process_objects().holdings}
    assert any(account.endswith("():things") for account in accounts)
    assert "variables/<Thing>" not in accounts
    del things


@pytest.mark.parametrize("length", [1_000, 50_000])
@pytest.mark.parametrize("make", [list, tuple, deque, lambda some: dict(enumerate(some))])
def test_tuples_with_one_holder_are_not_remembered(make: Any, length: int) -> None:
    """Also in containers so long that they are looked through in slices."""
    kept = make([(np.zeros(4),) for _ in range(length)])
    census = LiveObjects()
    search = ArraySearch(census)
    search.take([kept])
    assert census.array_counts[id(np.ndarray)] == length
    assert (search._seen, search._seen_tuples) == (set(), set())
