"""Growth of parts and unexplained add up to that of the whole, to the byte."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.run.shapes import GrowthStatement, Shape, growth_statement

MIB = 1 << 20
sizes = st.integers(0, 1 << 40)
snapshots = st.lists(st.tuples(st.integers(0, 100), sizes), max_size=8)


def assert_adds_up(found: GrowthStatement) -> None:
    assert sum(row.growth for row in found.rows) + found.unexplained.growth == found.whole.growth
    assert all(isinstance(row.growth, int) for row in (*found.rows, found.unexplained))


@settings(deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), snapshots, max_size=5),
    st.lists(st.tuples(st.integers(0, 100), sizes), max_size=40),
    st.integers(-10, 110),
    st.integers(-10, 110),
)
def test_it_adds_up_whatever_the_points(
    parts: dict[str, list[tuple[int, int]]], whole: list[tuple[int, int]], start: int, stop: int
) -> None:
    found = growth_statement(parts, whole, start, stop)
    assert_adds_up(found)
    assert {row.name for row in found.rows} == set(parts)
    assert found == growth_statement(parts, whole, start, stop)


def run(seed: int = 0) -> tuple[dict[str, list[tuple[float, float]]], list[tuple[float, float]]]:
    """A leak, a buffer that fills, a level; the whole has 2 MiB an iteration more, and noise."""
    rng = random.Random(seed)
    levels: dict[str, Callable[[int], float]] = {
        "leak": lambda at: 3.0 * MIB * at,
        "buffer": lambda at: min(5.0 * MIB * at, 250.0 * MIB),
        "network": lambda at: 80.0 * MIB,
    }
    moments = [0, 7, 20, 41, 66, 99]
    parts = {name: [(float(at), level(at)) for at in moments] for name, level in levels.items()}
    whole = [
        (
            float(at),
            300.0 * MIB
            + sum(level(at) for level in levels.values())
            + 2.0 * MIB * at
            + rng.gauss(0, MIB)
            + (400 * MIB if at == 30 else 0),
        )
        for at in range(120)
    ]
    return parts, whole


def test_each_row_has_its_own_rate_and_shape() -> None:
    parts, whole = run()
    found = growth_statement(parts, whole, 66, 120, quantum=MIB)
    assert_adds_up(found)
    assert (found.start, found.stop) == (66, 99)  # as long as parts are known
    rows = {row.name: row for row in found.rows}
    assert rows["leak"].rate == pytest.approx(3 * MIB, rel=0.01)
    assert rows["buffer"].growth == rows["network"].growth == 0
    assert found.unexplained.rate == pytest.approx(2 * MIB, rel=0.1)
    assert found.unexplained.rate_interval[0] < 2 * MIB < found.unexplained.rate_interval[1]
    assert found.whole.rate == pytest.approx(5 * MIB, rel=0.05)
    assert rows["leak"].share == pytest.approx(0.6, abs=0.03)
    assert found.whole.share == 1.0


def test_over_the_whole_run_a_spike_does_not_count() -> None:
    parts, whole = run()
    found = growth_statement(parts, whole, 0, 99, capacities={"buffer": 250.0 * MIB}, quantum=MIB)
    assert_adds_up(found)
    rows = {row.name: row for row in found.rows}
    assert rows["leak"].fit.shape is Shape.LINEAR
    assert rows["leak"].fit.is_rising_at_end
    assert rows["buffer"].fit.shape is Shape.FILLING
    assert rows["network"].fit.shape is Shape.CONSTANT
    assert found.unexplained.rate == pytest.approx(2 * MIB, rel=0.3)
    assert [row.name for row in found.rows] == ["leak", "buffer", "network"]


def test_without_parts_all_is_unexplained() -> None:
    _, whole = run()
    found = growth_statement({}, whole, 0, 119)
    assert found.rows == ()
    assert found.unexplained.growth == found.whole.growth > 0


def test_a_part_that_is_known_later_does_not_bend_the_whole() -> None:
    whole = [(float(at), 16.0 * MIB * at) for at in range(10)]
    late = [(at + 0.25, 16.0 * MIB * at) for at in range(9)]
    found = growth_statement({"late": late}, whole, 0.0, 9.0)
    assert (found.start, found.stop) == (0.25, 8.25)
    assert found.whole.growth == 8 * 16 * MIB
    assert found.unexplained.growth == 0
