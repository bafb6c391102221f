"""Series of every shape, with the noise of allocators, whose truth the test made."""

import math
import random
from collections.abc import Callable

import pytest

from ramledger.run.shapes import Fit, Shape, fit

PAGE = 4096 / (1 << 20)  # levels are MiB
SEEDS = range(12)
Level = Callable[[float, int], float]


def series(
    level: Level, count: int = 100, *, seed: int = 0, noise: float = 2.0, spikes: bool = False
) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    points = []
    for i in range(count):
        value = 500 + level(i / (count - 1), i) + rng.gauss(0, noise)
        if spikes and rng.random() < 0.04:
            value += rng.uniform(50, 300)
        points.append((float(i), round(value / PAGE) * PAGE))
    return points


def fits(level: Level, count: int = 100, noise: float = 2.0, spikes: bool = False) -> list[Fit]:
    return [
        fit(series(level, count, seed=seed, noise=noise, spikes=spikes), quantum=PAGE)
        for seed in SEEDS
    ]


def mostly(truths: list[bool]) -> bool:
    """All but one: noise may look like anything once."""
    return sum(truths) >= len(truths) - 1


def warm_up(u: float) -> float:
    return 60 * (1 - math.exp(-u / 0.04))


NOT_RISING: dict[str, tuple[Level, set[Shape]]] = {
    "constant": (lambda u, i: 0, {Shape.CONSTANT}),
    "warm-up": (lambda u, i: warm_up(u), {Shape.FILLING, Shape.STEP}),
    "slow warm-up": (lambda u, i: 100 * (1 - math.exp(-u / 0.2)), {Shape.FILLING}),
    "curriculum": (lambda u, i: 80 * (u > 0.6), {Shape.STEP}),
    "two steps": (lambda u, i: 50 * (u > 0.3) + 60 * (u > 0.7), {Shape.STEP}),
    "a buffer that filled": (lambda u, i: 200 * min(u, 0.5), {Shape.FILLING}),
    "a leak that stopped": (lambda u, i: 160 * min(max(0, u - 0.2), 0.3), {Shape.FILLING}),
    "collected every 7": (lambda u, i: 8 * (i % 7), {Shape.SAWTOOTH}),
}

RISING: dict[str, tuple[Level, float]] = {  # MiB over the run, at its end
    "linear": (lambda u, i: 100 * u, 100),
    "after a warm-up": (lambda u, i: warm_up(u) + 100 * u, 100),
    "from half of the run": (lambda u, i: 200 * max(0, u - 0.5), 200),
    "two slopes": (lambda u, i: 50 * u + 150 * max(0, u - 0.5), 200),
    "with a step": (lambda u, i: 80 * (u > 0.3) + 100 * u, 100),
    "with teeth": (lambda u, i: 100 * u + 8 * (i % 7), 100),
}


@pytest.mark.parametrize("count", [100, 2000])
@pytest.mark.parametrize("name", NOT_RISING)
def test_what_does_not_rise_at_the_end(name: str, count: int) -> None:
    level, shapes = NOT_RISING[name]
    found = fits(level, count)
    assert mostly([one.shape in shapes for one in found])
    assert not any(one.shape is Shape.LINEAR and one.is_rising_at_end for one in found)


@pytest.mark.parametrize("count", [20, 100, 2000])
@pytest.mark.parametrize("name", RISING)
def test_what_rises_at_the_end(name: str, count: int) -> None:
    level, grown = RISING[name]
    found = [one for one in fits(level, count) if one.enough]
    assert len(found) >= len(SEEDS) // 3
    assert mostly([one.shape is Shape.LINEAR and one.is_rising_at_end for one in found])
    if count >= 100:
        assert len(found) == len(SEEDS)
        assert mostly([one.rate == pytest.approx(grown / (count - 1), rel=0.1) for one in found])


@pytest.mark.parametrize("count", [100, 2000])
def test_spikes_of_checkpoints_neither_make_nor_hide_a_leak(count: int) -> None:
    assert not any(one.is_rising_at_end for one in fits(lambda u, i: 0, count, spikes=True))
    found = fits(lambda u, i: 100 * u, count, spikes=True)
    assert mostly([one.is_rising_at_end for one in found])
    assert mostly([one.rate == pytest.approx(100 / (count - 1), rel=0.1) for one in found])


def test_a_slow_leak_is_found_under_noise() -> None:
    found = fits(lambda u, i: 50 * u, noise=5.0)
    assert mostly([one.is_rising_at_end for one in found])
    assert mostly([one.rate == pytest.approx(50 / 99, rel=0.15) for one in found])


def test_the_interval_holds_the_rate_about_nine_times_in_ten() -> None:
    rng = random.Random(7)
    inside = 0
    for _ in range(100):
        noise, points = 0.0, []
        for i in range(100):
            noise = 0.6 * noise + rng.gauss(0, 2)
            points.append((float(i), 500 + 1.0 * i + noise))
        low, high = fit(points).rate_interval
        inside += low <= 1.0 <= high
    assert inside >= 80


def test_the_onset_is_where_it_began() -> None:
    found = fits(RISING["from half of the run"][0])
    onsets = [one.onset for one in found if one.onset is not None]
    assert len(onsets) == len(found)
    assert mostly([abs(onset - 49.5) <= 4 for onset in onsets])
    for one in found:
        assert one.onset is not None
        assert one.onset_interval is not None
        assert one.onset_interval[0] <= one.onset <= one.onset_interval[1]


@pytest.mark.parametrize("count", [100, 1000])
def test_a_step_is_found_to_the_iteration(count: int) -> None:
    found = fits(NOT_RISING["curriculum"][0], count)
    first = next(i for i in range(count) if i / (count - 1) > 0.6)
    assert mostly([one.onset is not None and abs(one.onset - first) <= 1 for one in found])


def test_an_exact_onset_is_exact() -> None:
    points = [(float(i), 100.0 + 3 * max(0, i - 12)) for i in range(30)]
    found = fit(points, quantum=1)
    assert found.shape is Shape.LINEAR
    assert found.onset == pytest.approx(12, abs=1)


@pytest.mark.parametrize(
    ("values", "shapes"),
    [
        ([3, 6, 9, 12], {Shape.LINEAR}),
        ([0, 1500, 1500, 1500], {Shape.STEP, Shape.FILLING}),
        ([4, 4, 4, 4], {Shape.CONSTANT}),
        ([300, 600, 900, 900, 900, 900], {Shape.FILLING}),
    ],
)
def test_a_few_whole_numbers_decide(values: list[int], shapes: set[Shape]) -> None:
    found = fit([(25.0 * i, float(value)) for i, value in enumerate(values)], quantum=1)
    assert found.shape in shapes
    assert found.enough
    assert found.is_rising_at_end == (shapes == {Shape.LINEAR})


def test_five_points_of_noise_are_not_enough() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        found = fit([(float(i), rng.gauss(500, 5)) for i in range(5)])
        assert not found.is_rising_at_end
        assert found.shape is not Shape.CONSTANT or not found.enough
        assert found.enough or found.needs_more_at > 0


def test_a_known_capacity_makes_a_line_a_filling_that_ends_there() -> None:
    points = [(10.0, 360.0), (20.0, 720.0), (30.0, 1080.0)]
    found = fit(points, capacity=1500, quantum=1)
    assert (found.shape, found.capacity, found.is_rising_at_end) == (Shape.FILLING, 1500, True)
    assert found.predict(35)[1] == pytest.approx(1260, rel=0.01)
    assert [round(value) for value in found.predict(1000)] == [1500, 1500, 1500]
    assert fit(points, capacity=500, quantum=1).shape is Shape.LINEAR  # it went beyond it


@pytest.mark.parametrize("points", [[(5.0, 200.0)], [(5.0, 200.0), (9.0, 300.0)]])
def test_a_known_capacity_bounds_what_too_few_points_cannot_tell(
    points: list[tuple[float, float]],
) -> None:
    found = fit(points, capacity=1500, quantum=1)
    assert (found.shape, found.enough, found.is_rising_at_end) == (Shape.FILLING, False, False)
    assert found.predict(1000)[2] == pytest.approx(1500, rel=0.1)


def test_a_bent_curve_tells_where_it_ends() -> None:
    found = fits(lambda u, i: 100 * (1 - math.exp(-u / 0.3)))
    ends = [one.capacity for one in found if one.capacity is not None]
    assert len(ends) == len(found)
    assert mostly([end == pytest.approx(600, abs=12) for end in ends])
    assert mostly([one.predict(10_000)[1] == pytest.approx(600, abs=12) for one in found])


def test_a_rise_after_a_fall_is_not_yet_a_leak() -> None:
    up = [float(i) * 5 for i in range(40)]
    found = fit(list(enumerate([*up, *up, *up[:25]])), quantum=1)
    assert not found.is_rising_at_end
    again = fit(list(enumerate([*up, *up[:15]])), quantum=1)
    assert (again.shape, again.enough) == (Shape.SAWTOOTH, False)
    assert again.needs_more == pytest.approx(25, abs=2)  # until it passes the last peak
    assert again.predict(70)[2] == pytest.approx(max(up), abs=3)


def test_steps_that_come_again_and_again_are_growth() -> None:
    rng = random.Random(3)
    level, points, pause = 60.0, [], 0
    for i in range(60):
        if not pause:
            level, pause = level + rng.uniform(4, 10), rng.randint(4, 8)
        pause -= 1
        points.append((float(i), level))
    found = fit(points, quantum=0.25)
    assert (found.shape, found.is_rising_at_end) == (Shape.LINEAR, True)
    assert found.rate_interval[0] > 0
    assert found.predict(120)[1] == pytest.approx(level + 61 * found.rate)
    stopped = points + [(float(i), level) for i in range(60, 200)]
    assert not fit(stopped, quantum=0.25).is_rising_at_end


def test_a_change_in_the_last_point_is_not_judged_yet() -> None:
    line = [(float(i), 6.0 * i) for i in range(30)]
    assert fit([*line, (30.0, 100.0)], quantum=1).is_rising_at_end
    flat = [(float(i), 500.0) for i in range(30)]
    assert not fit([*flat, (30.0, 900.0)], quantum=1).is_rising_at_end


def test_what_stays_where_a_rise_should_have_gone_on_may_have_ended() -> None:
    line = [(float(i), 6.0 * i) for i in range(10)]
    found = fit([*line, (20.0, 56.0)], quantum=1)
    assert not found.is_rising_at_end
    assert not found.enough
    assert fit([*line, (20.0, 120.0)], quantum=1).is_rising_at_end


def test_growth_below_the_noise_floor_is_no_growth() -> None:
    points = [(float(i), 1000.0 + 0.5 * i) for i in range(40)]
    assert fit(points).is_rising_at_end
    assert not fit(points, quantum=64).is_rising_at_end
    assert fit(points, quantum=64).enough


def test_the_future_follows_the_shape() -> None:
    constant = fit(series(lambda u, i: 0), quantum=PAGE).predict(200)
    assert constant[1] == pytest.approx(500, abs=2)
    line = fit(series(lambda u, i: 100 * u), quantum=PAGE).predict(198)
    assert line[1] == pytest.approx(700, rel=0.02)
    teeth = fit(series(NOT_RISING["collected every 7"][0]), quantum=PAGE).predict(200)
    assert teeth[0] == pytest.approx(500, abs=10)
    assert teeth[2] == pytest.approx(548, abs=15)
    step = fit(series(NOT_RISING["curriculum"][0]), quantum=PAGE)
    assert step.predict(300)[1] == pytest.approx(580, abs=3)
    assert step.predict(10)[1] == pytest.approx(500, abs=3)  # and the past
