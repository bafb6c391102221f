"""Iterations: bounded rows, totals that add up, and a slope that outliers do not move."""

from dataclasses import replace

import pytest

from ramledger.run.iterations import (
    MAX_ITERATIONS,
    MAX_LABELS,
    MAX_PHASES,
    MAX_PROCESSES,
    Iterations,
)
from tests.support.report_events import MIB, PID, generation, phase, snapshot, statement


def with_levels(levels: list[int]) -> Iterations:
    iterations = Iterations()
    for number, level in enumerate(levels):
        iterations.add_iteration(generation(float(number), number, level))
    return iterations


def test_a_steady_growth_is_its_rate() -> None:
    iterations = with_levels([500 * MIB + 7 * MIB * n for n in range(12)])
    assert iterations.growth(PID) == 7 * MIB


def test_the_first_generation_and_a_spike_do_not_count() -> None:
    levels = [100 * MIB, *[400 * MIB + MIB * n for n in range(12)]]
    levels[6] += 300 * MIB
    assert with_levels(levels).growth(PID) == pytest.approx(MIB, rel=0.05)


def test_generations_that_were_summed_count_by_their_numbers() -> None:
    iterations = Iterations()
    for number in (0, 10, 20, 30, 40):
        iterations.add_iteration(generation(number, number, MIB * (100 + number)))
    assert iterations.growth(PID) == MIB


def test_few_generations_have_no_rate() -> None:
    assert with_levels([MIB, 2 * MIB]).growth(PID) is None
    assert with_levels([]).growth(PID) is None
    assert with_levels([MIB] * 5).growth(None) is None
    assert with_levels([MIB] * 5).growth(PID + 1) is None


def test_a_long_run_is_thinned_and_keeps_its_first_and_latest_generations() -> None:
    iterations = with_levels([MIB + 1000 * n for n in range(20_000)])
    numbers = [row.generation for row in iterations.of(PID)]
    assert len(numbers) <= MAX_ITERATIONS
    assert numbers == sorted(numbers)
    assert numbers[0] == 0
    assert numbers[-20:] == list(range(20_000 - 20, 20_000))
    assert iterations.growth(PID) == pytest.approx(1000)


def test_a_flat_level_with_noise_does_not_grow() -> None:
    levels = [400 * MIB + (n * 7919 % 13) * MIB for n in range(40)]
    assert with_levels(levels).growth(PID) == 0.0


def test_growth_is_fitted_anew_when_there_is_a_tenth_more() -> None:
    """However often it is asked for."""
    iterations = with_levels([500 * MIB + 7 * MIB * n for n in range(50)])
    before = iterations.growth(PID)
    for number in range(50, 53):
        iterations.add_iteration(generation(number, number, 900 * MIB + 50 * MIB * number))
    assert iterations.growth(PID) == before
    for number in range(53, 90):
        iterations.add_iteration(generation(number, number, 900 * MIB + 50 * MIB * number))
    assert iterations.growth(PID) == pytest.approx(50 * MIB, rel=0.1)


def test_phases_are_summed() -> None:
    iterations = Iterations()
    for number in range(3):
        iterations.add_phase(phase(number, number, "train", 10 * MIB, 12 * MIB))
    iterations.add_phase(
        replace(phase(3, 3, "save", MIB, MIB), growth_bytes=5, passes=7, measured_passes=7)
    )
    train, save = iterations.phases(PID)
    assert (train.name, train.passes, train.growth_bytes) == ("train", 3, 6 * MIB)
    assert (train.peak_bytes, train.growth_per_iteration) == (20 * MIB, 2 * MIB)
    assert (save.passes, save.growth_bytes) == (7, 5)


def test_names_labels_and_processes_are_bounded() -> None:
    iterations = Iterations()
    for number in range(500):
        iterations.add_phase(phase(1, number, f"phase {number}", 0, MIB))
        iterations.add_label(
            snapshot(number, statement({}, rss_bytes=MIB), label=f"label {number}")
        )
    assert len(iterations.phases(PID)) == MAX_PHASES
    assert len(iterations.labels) == MAX_LABELS
    assert (iterations.labels[0].label, iterations.labels[-1].label) == ("label 0", "label 499")
    for pid in range(MAX_PROCESSES - 1):
        iterations.add_iteration(generation(1, 1, MIB, pid=10_000 + pid))
    iterations.add_iteration(generation(1, 1, MIB, pid=5))
    assert iterations.of(5) == []
    assert len(iterations.of(10_000)) == 1
