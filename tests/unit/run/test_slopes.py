"""Slopes, floors and onsets of series whose truth the test made."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.run.slopes import (
    MAX_POINTS,
    floor_of,
    is_saturating,
    onset_index,
    theil_sen,
    thinned,
)

levels = st.lists(st.floats(0, 1e9), min_size=3, max_size=60)


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(0, 1e9), st.integers(3, 60))
def test_a_line_has_its_own_slope(slope: float, start: float, count: int) -> None:
    xs = [float(i) for i in range(count)]
    found = theil_sen(xs, [start + slope * x for x in xs])
    assert found is not None
    assert abs(found.per_step - slope) <= 1e-5 * max(1.0, abs(slope), start)


@settings(deadline=None)
@given(levels)
def test_the_interval_holds_the_slope(ys: list[float]) -> None:
    found = theil_sen([float(i) for i in range(len(ys))], ys)
    assert found is not None
    assert found.low <= found.per_step <= found.high


def test_one_spike_does_not_move_the_slope() -> None:
    xs = [float(i) for i in range(20)]
    ys = [5.0 * x for x in xs]
    ys[11] = 1e6
    found = theil_sen(xs, ys)
    assert found is not None
    assert abs(found.per_step - 5.0) < 0.5


def test_noise_without_trend_does_not_rise() -> None:
    rng = random.Random(1)
    rising = 0
    for _ in range(100):
        ys = [rng.gauss(0, 10) for _ in range(20)]
        found = theil_sen([float(i) for i in range(20)], ys)
        assert found is not None
        rising += found.is_rising
    assert rising <= 10  # 2.5 % are expected


def test_two_points_have_no_slope_unless_it_is_asked_for() -> None:
    assert theil_sen([0.0, 1.0], [0.0, 1.0]) is None
    both = theil_sen([0.0, 1.0], [0.0, 1.0], least_points=2)
    assert both is not None
    assert (both.per_step, both.start) == (1.0, 0.0)
    assert theil_sen([0.0], [0.0], least_points=2) is None
    assert theil_sen([1.0, 1.0, 1.0], [0.0, 1.0, 2.0]) is None


@settings(deadline=None)
@given(levels)
def test_a_floor_never_falls_and_never_exceeds(ys: list[float]) -> None:
    floor = floor_of(ys)
    assert floor == sorted(floor)
    assert all(f <= y for f, y in zip(floor, ys, strict=True))
    assert floor[-1] == ys[-1]


@settings(deadline=None)
@given(st.integers(4, 20))
def test_the_onset_is_where_it_bends(at: int) -> None:
    xs = [float(i) for i in range(30)]
    ys = [100.0 + 10 * max(0, i - at) for i in range(30)]
    assert abs(onset_index(xs, ys) - at) <= 1


def test_growth_that_slows_down_saturates_and_a_line_does_not() -> None:
    xs = [float(i) for i in range(24)]
    assert is_saturating(xs, [100 * (1 - 0.8**x) for x in xs])
    assert not is_saturating(xs, [4 * x for x in xs])


@settings(deadline=None)
@given(st.integers(1, 2000))
def test_thinning_keeps_the_last_point(count: int) -> None:
    xs = [float(i) for i in range(count)]
    kept, values = thinned(xs, xs)
    assert len(kept) <= MAX_POINTS + 1
    assert kept == values
    assert kept[-1] == xs[-1]


def test_the_onset_is_where_it_rises_though_the_first_step_is_twice_as_high() -> None:
    levels = [28.0] * 7 + [52.0] + [100.0 + 24 * i for i in range(17)]
    assert onset_index(list(range(25)), levels) == 6
