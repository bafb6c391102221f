"""Trend: bounded rows, totals that add up, and a slope that outliers do not move."""

import pytest

from ramledger.run.iterations import MAX_GENERATIONS, MAX_LABELS, MAX_PHASES, MAX_PROCESSES, Trend
from tests.support.report_events import MIB, PID, generation, phase


def with_levels(levels: list[int]) -> Trend:
    trend = Trend()
    for number, level in enumerate(levels):
        trend.add_generation(PID, float(number), generation(float(number), number, level))
    return trend


def test_a_steady_growth_is_its_slope() -> None:
    trend = with_levels([500 * MIB + 7 * MIB * n for n in range(12)])
    assert trend.slope(PID) == 7 * MIB


def test_the_first_generation_and_a_spike_do_not_count() -> None:
    levels = [100 * MIB, *[400 * MIB + MIB * n for n in range(12)]]
    levels[6] += 300 * MIB
    assert with_levels(levels).slope(PID) == pytest.approx(MIB, rel=0.05)


def test_generations_that_were_summed_count_by_their_numbers() -> None:
    trend = Trend()
    for number in (0, 10, 20, 30, 40):
        trend.add_generation(PID, number, generation(number, number, MIB * (100 + number)))
    assert trend.slope(PID) == MIB


def test_few_generations_have_no_slope() -> None:
    assert with_levels([MIB, 2 * MIB]).slope(PID) is None
    assert with_levels([]).slope(PID) is None
    assert with_levels([MIB] * 5).slope(None) is None
    assert with_levels([MIB] * 5).slope(PID + 1) is None


def test_a_long_run_is_thinned_and_keeps_its_first_and_latest_generations() -> None:
    trend = with_levels([MIB + n for n in range(20_000)])
    numbers = [row.generation for row in trend.generations(PID)]
    assert len(numbers) <= MAX_GENERATIONS
    assert numbers == sorted(numbers)
    assert numbers[0] == 0
    assert numbers[-20:] == list(range(20_000 - 20, 20_000))
    assert trend.slope(PID) == 1


def test_phases_are_summed() -> None:
    trend = Trend()
    for number in range(3):
        trend.add_phase(PID, number, phase(number, number, "train", 10 * MIB, 12 * MIB))
    trend.add_phase(PID, 3, phase(3, 3, "save", MIB, MIB) | {"growth_bytes": 5, "count": 7})
    train, save = trend.phases(PID)
    assert (train.name, train.count, train.growth_bytes) == ("train", 3, 6 * MIB)
    assert (train.peak_bytes, train.growth_per_generation) == (20 * MIB, 2 * MIB)
    assert (save.count, save.growth_bytes, save.last_growth_bytes) == (7, 5, 5)


def test_names_labels_and_processes_are_bounded() -> None:
    trend = Trend()
    for number in range(500):
        trend.add_phase(PID, 1, phase(1, number, f"phase {number}", 0, MIB))
        trend.add_label(PID, number, f"label {number}", MIB)
    assert len(trend.phases(PID)) == MAX_PHASES
    assert len(trend.labels) == MAX_LABELS
    assert (trend.labels[0].label, trend.labels[-1].label) == ("label 0", "label 499")
    for pid in range(MAX_PROCESSES - 1):
        trend.add_generation(10_000 + pid, 1, generation(1, 1, MIB, pid=10_000 + pid))
    trend.add_generation(5, 1, generation(1, 1, MIB, pid=5))
    assert trend.generations(5) == []
    assert len(trend.generations(10_000)) == 1
