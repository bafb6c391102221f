"""Series: bounded, in order, the newest dense, and drawn truly."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ramledger.run.series import Series, drawn


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 1 << 50)), max_size=600))
def test_it_is_bounded_ordered_and_ends_with_the_last(points: list[tuple[float, int]]) -> None:
    series = Series(whole=16, recent=8)
    for t, value in points:
        series.add(t, value)
    assert len(series) <= 24 + 1
    assert series.times == sorted(series.times)
    assert len(series.times) == len(series.values) == len(series)
    if points:
        assert series.last == series.values[-1] == points[-1][1]
        assert series.values[-min(8, len(points)) :] == [value for _, value in points[-8:]]


def test_a_long_run_keeps_its_whole_length_and_its_latest_part() -> None:
    series = Series(whole=100, recent=50)
    for n in range(200_000):
        series.add(n * 0.5, n)
    times = series.times
    assert times[0] == 0.0
    assert times[-50:] == [(200_000 - 50 + n) * 0.5 for n in range(50)]
    old = [t for t in times if t < times[-50]]
    gaps = [later - earlier for earlier, later in pairwise(old)]
    assert 50 <= len(old) <= 100
    assert max(gaps) <= 2.5 * min(gaps)


def test_a_sparkline_has_its_width_and_its_shape() -> None:
    series = Series()
    assert series.sparkline(10) == ""
    for n in range(100):
        series.add(n, 1000 * n)
    assert series.sparkline(8) == "▁▂▃▄▅▆▇█"
    assert series.sparkline(0) == ""
    assert all(len(series.sparkline(width)) == width for width in range(1, 60))


def test_a_spike_is_seen_and_a_gap_shows_the_level_before() -> None:
    series = Series()
    for t, value in ((0, 10), (1, 10), (1.1, 90), (1.2, 10), (10, 10)):
        series.add(t, value)
    line = series.sparkline(10)
    assert line[1] == "█"
    assert set(line[2:9]) == {line[2]}
    assert line[-1] == "▁"


def test_noise_is_drawn_flat_and_equal_values_do_not_divide_by_zero() -> None:
    assert drawn([1000, 1001, 1000]) == "▁▁▁"
    assert drawn([5, 5]) == "▁▁"
    assert drawn([0]) == "▁"
