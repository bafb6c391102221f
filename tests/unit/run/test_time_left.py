"""Time left on series whose end is known, because the test made them."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.run.time_left import (
    FALLS_BACK,
    NOT_GROWING,
    REACHED,
    TOO_FEW,
    UNCLEAR,
    Filling,
    TimeLeft,
    time_left,
)

MIB = 1 << 20
GIB = 1 << 30
LIMIT = 20 * GIB
EVERY = 0.5
COUNT = 600
SPAN = COUNT * EVERY

Curve = Callable[[float], float]


Level = list[tuple[float, float]]


def sampled(curve: Curve, *, count: int = COUNT, noise: float = 0.5 * MIB) -> Level:
    """A curve with normal noise, the same in every run."""
    chance = random.Random(7)
    times = [number * EVERY for number in range(count)]
    return [(t, curve(t) + chance.gauss(0, noise)) for t in times]


def ahead(
    curve: Curve, limit_bytes: int = LIMIT, *, count: int = COUNT, noise: float = 0.5 * MIB
) -> TimeLeft:
    return time_left(sampled(curve, count=count, noise=noise), limit_bytes)


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

        assert width(0) < 0.1 * width(5 * MIB) < width(5 * MIB) < width(100 * MIB)

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
        assert found.seconds_left == pytest.approx(truth, rel=0.12)
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
        found = time_left([(n * EVERY, y) for n, y in enumerate(levels)], LIMIT)
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

    @pytest.mark.parametrize("period", [7, 20, 50, 77, 110, 130, 160, 220])
    @pytest.mark.parametrize("phase", [0, 0.3, 0.7])
    def test_teeth(self, period: float, phase: float) -> None:
        """Taken and freed in every generation; the last rise is like those before it."""
        found = ahead(lambda t: 2 * GIB + GIB * ((t / period + phase) % 1))
        assert found.seconds_left is None
        assert found.reason in (NOT_GROWING, FALLS_BACK, UNCLEAR)

    def test_a_rise_that_would_reach_the_limit_before_it_falls_back_is_told(self) -> None:
        """Freed once at 10 GiB, it rises again twice as fast: as long a rise would not fit."""

        def curve(t: float) -> float:
            return 2 * GIB + (t * 40 * MIB if t < 200 else (t - 200) * 80 * MIB)

        found = ahead(curve, limit_bytes=16 * GIB)
        assert found.seconds_left == pytest.approx(seconds_until(curve, 16 * GIB), rel=0.05)

    @pytest.mark.parametrize("count", [0, 1, 2, 7])
    def test_too_few(self, count: int) -> None:
        assert ahead(lambda t: GIB + 10 * MIB * t, count=count).reason == TOO_FEW

    def test_one_moment_again_and_again(self) -> None:
        assert time_left([(3.0, y) for y in range(50)], LIMIT).reason == TOO_FEW


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
        assert found.low_seconds is not None and found.high_seconds is not None
        assert found.low_seconds < truth < found.high_seconds

    def test_a_square_root_has_no_end(self) -> None:
        found = ahead(lambda t: GIB + 300 * MIB * math.sqrt(t))
        assert found.seconds_left is not None
        assert found.seconds_left < seconds_until(lambda t: GIB + 300 * MIB * math.sqrt(t))


class TestFillingBuffers:
    @staticmethod
    def filling(rate: float, *fillings: Filling, limit_bytes: int = LIMIT) -> TimeLeft:
        return time_left(sampled(lambda t: GIB + rate * t), limit_bytes, fillings)

    @staticmethod
    def buffer(
        name: str, rate: float, capacity: float, *, held: float = 0.0, last: float = SPAN - EVERY
    ) -> Filling:
        """Seen in ten snapshots, the last of which may be long ago."""
        times = [last * number / 9 for number in range(10)]
        return Filling(name, [(t, held + rate * t) for t in times], capacity)

    @pytest.mark.parametrize("last", [SPAN - EVERY, 0.5 * SPAN])
    def test_a_buffer_explains_all(self, last: float) -> None:
        found = self.filling(10 * MIB, self.buffer("replay", 10 * MIB, 6 * GIB, last=last))
        assert found.seconds_left is None
        assert found.settles_at_bytes == pytest.approx(7 * GIB, rel=0.01)
        assert found.reason == "will plateau at 7.0 GiB, below the limit"

    def test_one_snapshot_is_enough_where_its_capacity_is_known(self) -> None:
        found = self.filling(10 * MIB, Filling("replay", [(200.0, 2000.0 * MIB)], 6 * GIB))
        assert found.seconds_left is None
        assert found.settles_at_bytes == pytest.approx(7 * GIB, rel=0.01)

    def test_a_buffer_seen_once_does_not_fill_while_nothing_grows(self) -> None:
        seen = Filling("replay", [(200.0, GIB)], 6 * GIB)
        assert time_left(sampled(lambda _: 5 * GIB), LIMIT, [seen]).reason == NOT_GROWING

    def test_what_was_in_it_before_does_not_matter(self) -> None:
        buffer = self.buffer("replay", 10 * MIB, 4 * GIB, held=0.5 * GIB)
        found = self.filling(10 * MIB, buffer)
        assert found.settles_at_bytes == pytest.approx(4.5 * GIB, rel=0.01)

    @pytest.mark.parametrize("last", [SPAN - EVERY, 0.5 * SPAN])
    def test_a_leak_beside_it_goes_on(self, last: float) -> None:
        found = self.filling(12 * MIB, self.buffer("replay", 10 * MIB, 6 * GIB, last=last))
        truth = (LIMIT - GIB - 6 * GIB) / (2 * MIB) - (SPAN - EVERY)
        assert found.seconds_left == pytest.approx(truth, rel=0.02)
        assert found.reason == "growing 720.0 MiB/min, 600.0 MiB/min of it fills replay"
        straight = self.filling(12 * MIB)
        assert straight.seconds_left is not None and found.seconds_left is not None
        assert straight.seconds_left < found.seconds_left / 3

    def test_a_buffer_that_is_too_large(self) -> None:
        found = self.filling(10 * MIB, self.buffer("replay", 10 * MIB, 30 * GIB))
        truth = (19 * GIB - 2995 * MIB) / (10 * MIB)
        assert found.seconds_left == pytest.approx(truth, rel=0.01)
        assert found.reason == "growing 600.0 MiB/min: replay fills"

    def test_two_buffers_that_are_full_at_different_times(self) -> None:
        small = self.buffer("replay/rewards", 2 * MIB, GIB)
        large = self.buffer("replay/observations", 8 * MIB, 40 * GIB)
        found = self.filling(10 * MIB, small, large)
        truth = (LIMIT - 2 * GIB) / (8 * MIB) - (SPAN - EVERY)
        assert found.seconds_left == pytest.approx(truth, rel=0.01)

    @pytest.mark.parametrize(
        "buffer",
        [
            Filling("full", [(0.0, 3.0 * GIB), (100.0, 3.0 * GIB)], 3 * GIB),
            Filling("shrunk", [(0.0, 3.0 * GIB), (100.0, 3.0 * GIB)], GIB),
            Filling("still", [(0.0, GIB), (100.0, GIB), (200.0, GIB)], 6 * GIB),
            Filling("never seen", [], 6 * GIB),
        ],
        ids=lambda buffer: buffer.account,
    )
    def test_a_buffer_that_does_not_fill_explains_nothing(self, buffer: Filling) -> None:
        found, without = self.filling(10 * MIB, buffer), self.filling(10 * MIB)
        assert found.seconds_left == pytest.approx(without.seconds_left)
        assert found.reason == without.reason

    def test_a_buffer_that_waits(self) -> None:
        flat = sampled(lambda _: 5 * GIB)
        waiting = Filling("replay", [(0.0, GIB), (100.0, GIB), (290.0, GIB)], 40 * GIB)
        found = time_left(flat, LIMIT, [waiting])
        assert found.seconds_left is None
        assert found.reason == "not growing now; full buffers would need 44.0 GiB"
        assert time_left(flat, 100 * GIB, [waiting]).reason == NOT_GROWING


class TestTheSeries:
    def test_a_limit_that_is_reached(self) -> None:
        found = ahead(lambda t: GIB + 10 * MIB * t, limit_bytes=2 * GIB)
        assert (found.seconds_left, found.low_seconds, found.high_seconds) == (0.0, 0.0, 0.0)
        assert found.reason == REACHED
        assert found.bytes_per_second == pytest.approx(10 * MIB, rel=0.01)

    def test_disorder_and_nonsense(self) -> None:
        """Clocks that jump back, readings that failed and moments told twice."""
        points = sampled(lambda t: GIB + 10 * MIB * t)
        straight = time_left(points, LIMIT)
        mixed = [*points, (math.nan, 1.0), (5.0, math.inf), (math.inf, 3.0), *points[:50]]
        random.Random(3).shuffle(mixed)
        found = time_left(mixed, LIMIT)
        assert found.seconds_left == pytest.approx(straight.seconds_left)

    def test_the_epoch_does_not_matter(self) -> None:
        points = sampled(lambda t: GIB + 10 * MIB * t)
        later = time_left([(t + 1.76e9, y) for t, y in points], LIMIT)
        assert later.seconds_left == pytest.approx(time_left(points, LIMIT).seconds_left)

    def test_a_thinned_past_is_as_good(self) -> None:
        """A run of days, whose older samples are far apart: the leak is two minutes old."""
        times = [t * 300.0 for t in range(900)]
        times += [times[-1] + EVERY * number for number in range(1, 241)]
        began = times[-1] - 120
        found = time_left([(t, 5 * GIB + max(0.0, t - began) * 20 * MIB) for t in times], LIMIT)
        assert found.seconds_left == pytest.approx((15 * GIB - 2400 * MIB) / (20 * MIB), rel=0.05)

    def test_time_goes_by(self) -> None:
        found = ahead(lambda t: GIB + 10 * MIB * t).later(10.0)
        now = ahead(lambda t: GIB + 10 * MIB * t)
        assert now.seconds_left is not None
        assert found.seconds_left == pytest.approx(now.seconds_left - 10.0)
        assert found.later(1e9).seconds_left == 0.0
        assert ahead(lambda _: 5 * GIB).later(10.0).seconds_left is None


LEVELS = st.floats(0, 2.0**50, allow_nan=False)
SERIES = st.lists(st.tuples(st.floats(0, 1e6), LEVELS), max_size=60)


@settings(max_examples=100, deadline=None)
@given(SERIES, st.integers(0, 2**55), st.lists(st.tuples(LEVELS, LEVELS), max_size=3))
def test_whatever_is_measured_the_answer_is_in_order(
    points: list[tuple[float, float]], limit_bytes: int, buffers: list[tuple[float, float]]
) -> None:
    fillings = [Filling("b", [(0.0, 0.0), (9.0, now)], final) for now, final in buffers]
    found = time_left(points, limit_bytes, fillings)
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
    points = [(t, gib * GIB + rate * t) for t in times]
    last = points[-1][1]
    limit = int(last) + 100 * MIB
    found = time_left(points, limit)
    assert found.seconds_left == pytest.approx((limit - last) / rate, rel=0.01, abs=0.01)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 40.0), st.floats(0.1, 100.0), st.floats(-1e6, 1e6), st.integers(0, 1000))
def test_another_clock_gives_the_same_answer(
    mib: float, faster: float, shift: float, seed: int
) -> None:
    chance = random.Random(seed)
    times = [number * EVERY for number in range(120)]
    points = [(t, GIB + mib * MIB * t + chance.gauss(0, MIB)) for t in times]
    plain = time_left(points, 50 * GIB)
    other = time_left([(t * faster + shift, y) for t, y in points], 50 * GIB)
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
    points = [(t, GIB + mib * MIB * t + chance.gauss(0, MIB)) for t in times]
    near = time_left(points, limit * GIB)
    far = time_left(points, (limit + higher) * GIB)
    if near.seconds_left is not None and far.seconds_left is not None:
        assert near.seconds_left <= far.seconds_left
