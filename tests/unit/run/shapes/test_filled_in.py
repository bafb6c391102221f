"""A part between and after its snapshots, from the whole that it belongs to."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.run.shapes import Shape, filled_in, fit

numbers = st.floats(allow_nan=False, allow_infinity=False)
points = st.lists(st.tuples(numbers, numbers), max_size=12)


@settings(deadline=None)
@given(points, points)
def test_own_points_stay_and_nothing_raises(
    part: list[tuple[float, float]], whole: list[tuple[float, float]]
) -> None:
    found = filled_in(part, whole)
    ats = [at for at, _ in found]
    assert ats == sorted(ats)
    assert {at for at, _ in part if abs(at) < 1e100} <= set(ats)


def levels(filled_at: int, count: int = 40) -> list[tuple[float, float]]:
    rng = random.Random(5)
    return [(float(i), 300 + 6.0 * min(i, filled_at) + rng.gauss(0, 0.3)) for i in range(count)]


def test_a_buffer_that_filled_after_its_last_snapshot_is_full() -> None:
    seen = [(float(at), 6.0 * at) for at in (1, 4, 9, 16)]
    alone = fit(seen, quantum=1)
    assert (alone.shape, alone.is_rising_at_end) == (Shape.LINEAR, True)
    found = fit(filled_in(seen, levels(22)), quantum=1)
    assert (found.shape, found.is_rising_at_end) == (Shape.FILLING, False)
    assert found.capacity == pytest.approx(6 * 22, abs=4)
    assert fit(filled_in(seen, levels(40)), quantum=1).is_rising_at_end


def test_between_two_snapshots_it_moves_as_the_whole_does() -> None:
    found = dict(filled_in([(0.0, 0.0), (39.0, 60.0)], levels(10)))
    assert found[10.0] == pytest.approx(60, abs=3)
    assert found[5.0] == pytest.approx(30, abs=3)


@pytest.mark.parametrize("grown", [0.0, 4.0])
def test_the_whole_says_nothing_of_a_part_that_hardly_moves(grown: float) -> None:
    seen = [(0.0, 50.0), (9.0, 50.0), (30.0, 50.0 + grown)]
    assert filled_in(seen, levels(40)) == seen


def test_the_whole_says_nothing_of_a_part_that_moves_otherwise() -> None:
    seen = [(0.0, 10.0), (10.0, 90.0), (20.0, 5.0), (30.0, 120.0)]
    assert filled_in(seen, levels(40)) == seen
