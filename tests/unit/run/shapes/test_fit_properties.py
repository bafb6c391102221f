"""What holds of the fit of any series: it never raises, repeats itself, and knows no units."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.run.shapes import Fit, Shape, fit

finite = st.floats(allow_nan=False, allow_infinity=False)
any_points = st.lists(st.tuples(finite, finite), max_size=40)


@st.composite
def trainings(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Series of whole numbers: a line, a step and noise, at irregular moments."""
    count = draw(st.integers(2, 40))
    rng = random.Random(draw(st.integers(0, 10**6)))
    rate, step, noise = draw(st.sampled_from([0, 0, 5, 40])), rng.randrange(300), rng.randrange(9)
    at, points = 0, []
    for i in range(count):
        at += rng.randrange(1, 5)
        level = rate * at + step * (i > count // 2)
        points.append((float(at), float(level + rng.randint(-noise, noise))))
    return points


def assert_is_sound(found: Fit) -> None:
    low, high = found.rate_interval
    assert low <= found.rate <= high or math.isnan(low + high)
    assert not (found.is_rising_at_end and not found.enough)
    assert found.needs_more == 0 if found.enough else found.needs_more > 0
    for at in (found.start, found.stop, found.stop + 10 * (found.stop - found.start)):
        least, middle, most = found.predict(at)
        assert least <= middle <= most


@settings(deadline=None, max_examples=300)
@given(any_points, st.none() | finite, st.floats(0, 1e6))
def test_no_finite_points_raise(
    points: list[tuple[float, float]], capacity: float | None, quantum: float
) -> None:
    assert_is_sound(fit(points, capacity=capacity, quantum=quantum))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_points_that_are_not_finite_are_left_out(number: float) -> None:
    line = [(float(i), 3.0 * i) for i in range(6)]
    assert fit([*line, (2.5, number), (number, 1.0)]) == fit(line)


@settings(deadline=None)
@given(trainings(), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_nothing_is_random(
    points: list[tuple[float, float]], rng: random.Random
) -> None:
    shuffled = list(points)
    rng.shuffle(shuffled)
    assert fit(points, quantum=1) == fit(shuffled, quantum=1)


@settings(deadline=None)
@given(trainings(), st.sampled_from([1024.0, -4096.0, 2.0**20]))
def test_a_constant_on_top_changes_the_level_only(
    points: list[tuple[float, float]], more: float
) -> None:
    one = fit(points, quantum=1)
    other = fit([(at, value + more) for at, value in points], quantum=1)
    assert (other.shape, other.enough, other.onset) == (one.shape, one.enough, one.onset)
    assert other.rate == pytest.approx(one.rate)
    assert other.level == pytest.approx(one.level + more)


@settings(deadline=None)
@given(trainings(), st.sampled_from([0.25, 4.0, 2.0**20]), st.sampled_from([0.5, 8.0]))
def test_units_do_not_matter(
    points: list[tuple[float, float]], of_value: float, of_at: float
) -> None:
    one = fit(points, quantum=1)
    scaled = [(at * of_at, value * of_value) for at, value in points]
    other = fit(scaled, quantum=of_value)
    assert (other.shape, other.enough) == (one.shape, one.enough)
    assert other.is_rising_at_end == one.is_rising_at_end
    assert other.rate == pytest.approx(one.rate * of_value / of_at)


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(0, 10**6), st.integers(8, 60))
def test_a_line_upside_down_falls_as_fast(slope: int, seed: int, count: int) -> None:
    rng = random.Random(seed)
    points = [(float(i), float(slope * i + rng.randint(-1, 1))) for i in range(count)]
    up, down = fit(points, quantum=1), fit([(at, -value) for at, value in points], quantum=1)
    assert down.rate == pytest.approx(-up.rate)
    assert not down.is_rising_at_end
    assert (up.shape is Shape.LINEAR) == (down.shape is Shape.LINEAR)


@pytest.mark.parametrize("points", [[], [(1.0, 5.0)], [(1.0, 5.0), (1.0, 7.0), (1.0, 9.0)]])
def test_less_than_two_moments_are_constant_and_not_enough(
    points: list[tuple[float, float]],
) -> None:
    found = fit(points)
    assert (found.shape, found.enough, found.rate) == (Shape.CONSTANT, False, 0.0)
    assert found.needs_more >= 1
    assert found.level == (points[len(points) // 2][1] if points else 0.0)


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 9), st.integers(4, 12), st.integers(0, 1000))
def test_whole_numbers_on_a_line_are_certain(step: int, count: int, start: int) -> None:
    found = fit([(float(i), float(start + step * i)) for i in range(count)], quantum=1)
    assert found.shape is Shape.LINEAR
    assert found.is_rising_at_end
    assert found.rate == pytest.approx(step)
    low, high = found.rate_interval
    assert step - 0.5 < low < step < high < step + 0.5
