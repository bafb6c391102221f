"""Forecasts on series whose end is known, because the test made them."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.run.forecast import (
    FALLS_BACK,
    NOT_GROWING,
    REACHED,
    TOO_FEW,
    Forecast,
    Plateau,
    forecast,
)
from ramledger.run.settled_trend import cleaned, trend

MIB = 1 << 20
GIB = 1 << 30
LIMIT = 20 * GIB
EVERY = 0.5
COUNT = 600
SPAN = COUNT * EVERY

Curve = Callable[[float], float]


def sampled(curve: Curve, *, count: int = COUNT, noise: float = 0.5 * MIB) -> list[list[float]]:
    """Times and levels of a curve with normal noise, the same in every run."""
    chance = random.Random(7)
    times = [number * EVERY for number in range(count)]
    return [times, [curve(t) + chance.gauss(0, noise) for t in times]]


def ahead(curve: Curve, limit_bytes: int = LIMIT, **options: float) -> Forecast:
    times, levels = sampled(curve, **options)  # type: ignore[arg-type]
    return forecast(times, levels, limit_bytes)


def seconds_until(curve: Curve, limit_bytes: int = LIMIT) -> float:
    """From the last sample until the curve itself crosses the limit, found by stepping along it."""
    t = start = (COUNT - 1) * EVERY
    while curve(t) < limit_bytes:
        t += 0.1
    return t - start


class TestGrowth:
    @pytest.mark.parametrize("noise", [0, 0.5 * MIB, 30 * MIB, 200 * MIB])
    def test_a_straight_line(self, noise: float) -> None:
        def line(t: float) -> float:
            return GIB + 10 * MIB * t

        found = ahead(line, noise=noise)
        truth = seconds_until(line)
        assert found.seconds_left is not None
        assert found.seconds_left == pytest.approx(truth, rel=0.05)
        assert found.bytes_per_second == pytest.approx(10 * MIB, rel=0.02)
        assert found.low_seconds is not None and found.high_seconds is not None
        assert found.low_seconds <= found.seconds_left <= found.high_seconds
        assert found.low_seconds <= truth * 1.001 and truth <= found.high_seconds * 1.001

    def test_more_noise_means_more_doubt(self) -> None:
        def width(noise: float) -> float:
            found = ahead(lambda t: GIB + 10 * MIB * t, noise=noise)
            assert found.high_seconds is not None and found.low_seconds is not None
            return found.high_seconds - found.low_seconds

        assert width(0) < 0.001 * width(5 * MIB) < width(5 * MIB) < width(100 * MIB)

    @pytest.mark.parametrize("lasting", [8, 30, 100, 200])
    def test_a_leak_after_a_long_calm(self, lasting: float) -> None:
        found = ahead(lambda t: 5 * GIB + max(0.0, t - SPAN + lasting) * 20 * MIB)
        truth = (15 * GIB - lasting * 20 * MIB) / (20 * MIB)
        assert found.seconds_left == pytest.approx(truth, rel=0.05)

    def test_a_leak_after_the_imports(self) -> None:
        found = ahead(lambda t: min(t * 100 * MIB, 3 * GIB) + max(0, t - 30) * 2 * MIB)
        assert found.bytes_per_second == pytest.approx(2 * MIB, rel=0.03)

    def test_a_leak_that_gets_slower_but_not_less(self) -> None:
        found = ahead(lambda t: GIB + min(t, 150) * 20 * MIB + max(0, t - 150) * 5 * MIB)
        assert found.bytes_per_second == pytest.approx(5 * MIB, rel=0.02)
        assert found.seconds_left == pytest.approx((19 * GIB - 3750 * MIB) / (5 * MIB), rel=0.02)

    @pytest.mark.parametrize("phase", [0, 0.25, 0.5, 0.75, 0.97])
    def test_a_staircase_climbs_wherever_on_a_stair_it_is_seen(self, phase: float) -> None:
        """Each generation takes 200 MiB and 30 s; between two steps nothing moves."""

        def stairs(t: float) -> float:
            return GIB + 200 * MIB * math.floor(t / 30 + phase)

        found = ahead(stairs)
        truth = seconds_until(stairs)
        assert found.seconds_left == pytest.approx(truth, rel=0.05)
        assert found.low_seconds is not None and found.high_seconds is not None
        assert found.low_seconds < truth < found.high_seconds

    @pytest.mark.parametrize("period", [10, 20, 40])
    def test_teeth_on_a_leak(self, period: float) -> None:
        """What counts is when the peaks reach the limit."""

        def teeth(t: float) -> float:
            return 2 * GIB + GIB * (t % period) / period + 5 * MIB * t

        found = ahead(teeth)
        assert found.low_seconds is not None and found.high_seconds is not None
        assert found.low_seconds < seconds_until(teeth) < found.high_seconds

    def test_spikes_are_neither_growth_nor_hide_it(self) -> None:
        def spiky(t: float) -> float:
            return GIB + (3 * GIB if round(t / EVERY) % 97 == 0 else 0)

        assert ahead(spiky).reason == NOT_GROWING
        found = ahead(lambda t: spiky(t) + MIB * t)
        assert found.bytes_per_second == pytest.approx(MIB, rel=0.02)

    def test_growth_that_speeds_up_may_end_sooner(self) -> None:
        def parabola(t: float) -> float:
            return GIB + 50_000 * t * t

        found = ahead(parabola)
        truth = seconds_until(parabola)
        assert "speeding up" in found.reason
        assert found.low_seconds is not None and found.seconds_left is not None
        assert found.low_seconds <= 1.1 * truth < found.seconds_left

    @pytest.mark.parametrize("count", [8, 12, 20])
    def test_it_speaks_early(self, count: int) -> None:
        found = ahead(lambda t: GIB + 10 * MIB * t, count=count)
        assert found.seconds_left == pytest.approx(19 * GIB / (10 * MIB), rel=0.1)


class TestNoGrowth:
    @pytest.mark.parametrize("noise", [0, 0.1 * MIB, MIB, 300 * MIB])
    def test_flat(self, noise: float) -> None:
        assert ahead(lambda _: 5 * GIB, noise=noise).reason == NOT_GROWING

    @pytest.mark.parametrize("seed", range(20))
    def test_noise_that_wanders_is_rarely_taken_for_a_short_time_left(self, seed: int) -> None:
        """A random walk has no trend; what is seen in it must come with much doubt."""
        chance = random.Random(seed)
        levels = [5.0 * GIB]
        for _ in range(COUNT - 1):
            levels.append(levels[-1] + chance.gauss(0, 20 * MIB))
        found = forecast([n * EVERY for n in range(COUNT)], levels, LIMIT)
        if found.seconds_left is not None:
            assert found.low_seconds is not None
            assert found.seconds_left > 5 * SPAN
            assert found.low_seconds < 0.9 * found.seconds_left

    def test_falling(self) -> None:
        found = ahead(lambda t: 9 * GIB - 5 * MIB * t)
        assert (found.seconds_left, found.reason) == (None, NOT_GROWING)
        assert found.bytes_per_second == pytest.approx(-5 * MIB, rel=0.02)

    @pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.8, 0.95])
    def test_one_step(self, share: float) -> None:
        assert ahead(lambda t: 2 * GIB + (3 * GIB if t > share * SPAN else 0)).seconds_left is None

    def test_imports_and_then_nothing(self) -> None:
        assert ahead(lambda t: min(t * 100 * MIB, 3 * GIB)).reason == NOT_GROWING

    @pytest.mark.parametrize("period", [7, 20, 50, 77, 100, 130, 160, 220])
    @pytest.mark.parametrize("phase", [0, 0.3, 0.7])
    def test_teeth(self, period: float, phase: float) -> None:
        """Taken and freed in every generation; the last rise is like those before it."""
        found = ahead(lambda t: 2 * GIB + GIB * ((t / period + phase) % 1))
        assert found.seconds_left is None
        assert found.reason in (NOT_GROWING, FALLS_BACK)

    def test_a_rise_that_would_reach_the_limit_before_it_falls_back_is_told(self) -> None:
        """Freed once at 10 GiB, it rises again twice as fast: as long a rise would not fit."""

        def curve(t: float) -> float:
            return 2 * GIB + (t * 40 * MIB if t < 200 else (t - 200) * 80 * MIB)

        found = ahead(curve, limit_bytes=16 * GIB)
        assert found.seconds_left == pytest.approx(seconds_until(curve, 16 * GIB), rel=0.05)
        assert ahead(curve, limit_bytes=100 * GIB).reason == FALLS_BACK

    @pytest.mark.parametrize("count", [0, 1, 2, 7])
    def test_too_few(self, count: int) -> None:
        assert ahead(lambda t: GIB + 10 * MIB * t, count=count).reason == TOO_FEW

    def test_one_moment_again_and_again(self) -> None:
        assert forecast([3.0] * 50, list(range(50)), LIMIT).reason == TOO_FEW


class TestGrowthThatEnds:
    @pytest.mark.parametrize("decay", [15, 30, 60, 100])
    def test_it_levels_off(self, decay: float) -> None:
        found = ahead(lambda t: GIB + 7 * GIB * (1 - math.exp(-t / decay)))
        assert found.seconds_left is None
        if found.settles_at_bytes is not None:
            assert found.settles_at_bytes == pytest.approx(8 * GIB, rel=0.05)
            assert "levels off" in found.reason and "below the limit" in found.reason

    def test_it_levels_off_too_high(self) -> None:
        found = ahead(lambda t: GIB + 29 * GIB * (1 - math.exp(-t / 200)), limit_bytes=25 * GIB)
        truth = seconds_until(lambda t: GIB + 29 * GIB * (1 - math.exp(-t / 200)), 25 * GIB)
        assert found.seconds_left is not None
        assert found.seconds_left <= truth
        assert found.high_seconds is None

    def test_a_square_root_has_no_end(self) -> None:
        found = ahead(lambda t: GIB + 300 * MIB * math.sqrt(t))
        assert found.seconds_left is not None
        assert found.seconds_left < seconds_until(lambda t: GIB + 300 * MIB * math.sqrt(t))
        assert found.high_seconds is None
        assert "slowing down" in found.reason


class TestFillingBuffers:
    @staticmethod
    def filling(rate: float, *plateaus: Plateau, limit_bytes: int = LIMIT) -> Forecast:
        times, levels = sampled(lambda t: GIB + rate * t)
        return forecast(times, levels, limit_bytes, plateaus=plateaus)

    def test_a_buffer_explains_all(self) -> None:
        found = self.filling(10 * MIB, Plateau("replay", 2995 * MIB, 6 * GIB))
        assert found.seconds_left is None
        assert found.settles_at_bytes == pytest.approx(7 * GIB, rel=0.01)
        assert found.reason == "will plateau at 7.0 GiB, below the limit"

    def test_its_known_rate_is_enough(self) -> None:
        """It had 2 GiB in it before the series began."""
        found = self.filling(10 * MIB, Plateau("replay", 5 * GIB, 9 * GIB, 10.0 * MIB))
        assert found.settles_at_bytes == pytest.approx(GIB + 2995 * MIB + 4 * GIB, rel=0.01)

    def test_a_leak_beside_it_goes_on(self) -> None:
        plateau = Plateau("replay", 2995 * MIB, 6 * GIB, 10.0 * MIB)
        found = self.filling(12 * MIB, plateau)
        level = GIB + 12 * MIB * (COUNT - 1) * EVERY
        truth = (LIMIT - level - plateau.remaining_bytes) / (2 * MIB)
        assert found.seconds_left == pytest.approx(truth, rel=0.02)
        assert "fills replay" in found.reason
        straight = self.filling(12 * MIB)
        assert straight.seconds_left is not None and found.seconds_left is not None
        assert straight.seconds_left < found.seconds_left / 3

    def test_a_buffer_that_is_too_large(self) -> None:
        found = self.filling(10 * MIB, Plateau("replay", 2995 * MIB, 30 * GIB))
        truth = (19 * GIB - 2995 * MIB) / (10 * MIB)
        assert found.seconds_left == pytest.approx(truth, rel=0.01)

    def test_two_buffers_that_are_full_at_different_times(self) -> None:
        small = Plateau("replay/rewards", 599 * MIB, GIB, 2.0 * MIB)
        large = Plateau("replay/observations", 2396 * MIB, 40 * GIB, 8.0 * MIB)
        found = self.filling(10 * MIB, small, large)
        level = GIB + 10 * MIB * (COUNT - 1) * EVERY
        truth = (LIMIT - level - small.remaining_bytes) / (8 * MIB)
        assert found.seconds_left == pytest.approx(truth, rel=0.01)

    @pytest.mark.parametrize(
        "plateau",
        [
            Plateau("full", 3 * GIB, 3 * GIB),
            Plateau("shrunk", 3 * GIB, GIB),
            Plateau("empty", 0, 6 * GIB),
            Plateau("still", GIB, 6 * GIB, 0.0),
            Plateau("emptied", GIB, 6 * GIB, -5.0),
        ],
        ids=lambda plateau: plateau.account,
    )
    def test_a_buffer_that_does_not_fill_explains_nothing(self, plateau: Plateau) -> None:
        assert self.filling(10 * MIB, plateau) == self.filling(10 * MIB)

    def test_a_buffer_that_waits(self) -> None:
        times, levels = sampled(lambda _: 5 * GIB)
        waiting = [Plateau("replay", GIB, 40 * GIB)]
        found = forecast(times, levels, LIMIT, plateaus=waiting)
        assert found.seconds_left is None
        assert found.reason == "not growing now; full buffers would need 44.0 GiB"
        assert forecast(times, levels, 100 * GIB, plateaus=waiting).reason == NOT_GROWING


class TestTheSeries:
    def test_a_limit_that_is_reached(self) -> None:
        found = ahead(lambda t: GIB + 10 * MIB * t, limit_bytes=2 * GIB)
        assert (found.seconds_left, found.low_seconds, found.high_seconds) == (0.0, 0.0, 0.0)
        assert found.reason == REACHED
        assert found.bytes_per_second == pytest.approx(10 * MIB, rel=0.01)

    def test_disorder_and_nonsense(self) -> None:
        """Clocks that jump back, readings that failed and moments told twice."""
        times, levels = sampled(lambda t: GIB + 10 * MIB * t)
        straight = forecast(times, levels, LIMIT)
        points = list(zip(times, levels, strict=True))
        points += [(math.nan, 1.0), (5.0, math.inf), (math.inf, 3.0), *points[:50]]
        random.Random(3).shuffle(points)
        mixed = forecast([t for t, _ in points], [level for _, level in points], LIMIT)
        assert mixed == straight

    def test_series_of_unequal_length(self) -> None:
        with pytest.raises(ValueError, match="zip"):
            forecast([1.0, 2.0], [1.0], LIMIT)

    def test_the_epoch_does_not_matter(self) -> None:
        times, levels = sampled(lambda t: GIB + 10 * MIB * t)
        later = forecast([t + 1.76e9 for t in times], levels, LIMIT)
        assert later.seconds_left == pytest.approx(forecast(times, levels, LIMIT).seconds_left)

    def test_a_thinned_past_is_as_good(self) -> None:
        """A run of days, whose older samples are far apart: the leak is two minutes old."""
        times = [t * 300.0 for t in range(900)]
        times += [times[-1] + EVERY * number for number in range(1, 241)]
        began = times[-1] - 120
        levels = [5 * GIB + max(0.0, t - began) * 20 * MIB for t in times]
        found = forecast(times, levels, LIMIT)
        assert found.seconds_left == pytest.approx((15 * GIB - 2400 * MIB) / (20 * MIB), rel=0.05)

    def test_a_long_series_is_not_looked_at_point_by_point(self) -> None:
        times = [t * 0.5 for t in range(50_000)]
        assert len(cleaned(times, times)[0]) <= 800
        found = forecast(times, [GIB + t * 0.1 * MIB for t in times], LIMIT)
        assert found.bytes_per_second == pytest.approx(0.1 * MIB, rel=0.01)

    def test_the_settled_part_begins_at_the_break(self) -> None:
        found = trend(cleaned(*sampled(lambda t: 5 * GIB + max(0, t - 240) * 20 * MIB)))
        assert found is not None
        assert abs(found.settled.began - 240 / EVERY) < 0.05 * COUNT


LEVELS = st.floats(0, 2.0**50, allow_nan=False)
SERIES = st.lists(st.tuples(st.floats(0, 1e6), LEVELS), max_size=60)


@settings(max_examples=100, deadline=None)
@given(SERIES, st.integers(0, 2**55), st.lists(st.tuples(LEVELS, LEVELS), max_size=3))
def test_whatever_is_measured_the_answer_is_in_order(
    points: list[tuple[float, float]], limit_bytes: int, buffers: list[tuple[float, float]]
) -> None:
    plateaus = [Plateau("b", int(now), int(final)) for now, final in buffers]
    found = forecast([t for t, _ in points], [y for _, y in points], limit_bytes, plateaus=plateaus)
    assert found.reason
    if found.seconds_left is None:
        assert found.low_seconds is None and found.high_seconds is None
        return
    assert found.low_seconds is not None
    assert 0 <= found.low_seconds <= found.seconds_left * 1.000001
    assert found.high_seconds is None or found.seconds_left <= found.high_seconds * 1.000001


@settings(max_examples=30, deadline=None)
@given(
    st.floats(0.01, 100.0), st.floats(0.1, 1000.0), st.integers(20, 400), st.floats(0.02, 3600.0)
)
def test_a_clean_line_is_foretold(mib: float, gib: float, count: int, every: float) -> None:
    """Any rate, level, number and distance of samples, once the growth is worth a word."""
    rate = max(mib * MIB, 2 * MIB / (count * every))
    times = [number * every for number in range(count)]
    levels = [gib * GIB + rate * t for t in times]
    limit = int(levels[-1]) + 100 * MIB
    found = forecast(times, levels, limit)
    assert found.seconds_left == pytest.approx((limit - levels[-1]) / rate, rel=0.01, abs=0.01)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 40.0), st.floats(0.1, 100.0), st.floats(-1e6, 1e6), st.integers(0, 1000))
def test_another_clock_gives_the_same_answer(
    mib: float, faster: float, shift: float, seed: int
) -> None:
    chance = random.Random(seed)
    times = [number * EVERY for number in range(120)]
    levels = [GIB + mib * MIB * t + chance.gauss(0, MIB) for t in times]
    plain = forecast(times, levels, 50 * GIB)
    other = forecast([t * faster + shift for t in times], levels, 50 * GIB)
    assert (plain.seconds_left is None) == (other.seconds_left is None)
    if plain.seconds_left is not None and other.seconds_left is not None:
        assert other.seconds_left == pytest.approx(plain.seconds_left * faster, rel=1e-3)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 40.0), st.integers(10, 100), st.integers(1, 100), st.integers(0, 1000))
def test_a_higher_limit_is_never_reached_sooner(
    mib: float, limit: int, higher: int, seed: int
) -> None:
    chance = random.Random(seed)
    times = [number * EVERY for number in range(120)]
    levels = [GIB + mib * MIB * t + chance.gauss(0, MIB) for t in times]
    near = forecast(times, levels, limit * GIB)
    far = forecast(times, levels, (limit + higher) * GIB)
    if near.seconds_left is not None and far.seconds_left is not None:
        assert near.seconds_left <= far.seconds_left
