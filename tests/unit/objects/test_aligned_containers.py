"""Containers that hold the same objects in the same order."""

from collections import deque
from typing import Any

import numpy as np
import pytest

from ramledger.objects.aligned_containers import AlignedContainers

STATES = [np.zeros(8) for _ in range(1001)]


@pytest.mark.parametrize(
    ("other", "repeats"),
    [
        (STATES[1:], True),
        (deque(STATES), True),
        ([np.zeros(8) for _ in range(1001)], False),
        (STATES[:500], False),  # of another length: it is estimated by itself
        ([*STATES[:300], *(np.zeros(8) for _ in range(701))], False),
        (dict.fromkeys(range(1001)), False),
    ],
)
def test_the_second_one_repeats_the_first(other: Any, repeats: bool) -> None:
    met = AlignedContainers()
    assert not met.repeats(STATES, len(STATES))
    assert met.repeats(other, len(other)) is repeats


def test_numbers_are_equal_and_not_shared() -> None:
    met = AlignedContainers()
    zeros = [0.0] * 1000
    assert not met.repeats(zeros, 1000)
    assert not met.repeats(list(zeros), 1000)
