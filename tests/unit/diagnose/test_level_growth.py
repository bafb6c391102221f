"""Levels that leak and levels that do not, each made by the test."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.diagnose.level_growth import before_teardown, is_regular, judge_level
from ramledger.units import MIB


def leaks(levels: list[float]) -> bool:
    return judge_level([float(i) for i in range(len(levels))], [x * MIB for x in levels]).is_leak


@given(st.integers(1, 18), st.floats(10, 500))
@settings(max_examples=40, deadline=None)
def test_one_step_is_no_leak(at: int, size: float) -> None:
    assert not leaks([100 + (size if i >= at else 0) for i in range(20)])


def test_a_sawtooth_is_no_leak() -> None:
    assert not leaks([100 + 10 * (i % 5) for i in range(30)])


def test_saturating_growth_is_no_leak() -> None:
    assert not leaks([100 + 200 * (1 - 0.75**i) for i in range(24)])


def test_a_slow_leak_under_noise_is_found_in_time() -> None:
    rng = random.Random(3)
    assert leaks([100 + 2 * i + rng.uniform(0, 60) for i in range(90)])


def test_noise_alone_raises_no_alarm() -> None:
    rng = random.Random(4)
    alarms = sum(leaks([100 + rng.uniform(0, 60) for _ in range(30)]) for _ in range(60))
    assert alarms <= 1


@settings(deadline=None)
@given(st.integers(8, 40), st.integers(1, 2))
def test_what_is_given_back_at_the_very_end_does_not_count(count: int, after: int) -> None:
    assert before_teardown([10.0 * MIB * i for i in range(count)] + [0.0] * after) == count
    assert before_teardown([10.0 * MIB * i for i in range(count)]) == count


def test_a_rhythm_is_much_the_same_rise_again_and_again() -> None:
    assert is_regular([5.0, 5.2, 4.9, 5.0, 5.1, 5.0])
    assert is_regular([5.0] * 9 + [0.0])
    assert not is_regular([0.0, 10.0] * 5)
    assert not is_regular([])
