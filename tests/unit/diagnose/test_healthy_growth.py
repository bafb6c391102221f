"""Growth that is no leak gets its name."""

from dataclasses import replace

import pytest

from ramledger.diagnose.finding import Kind, Verdict
from ramledger.diagnose.verdict import diagnose
from ramledger.events import Event
from tests.support.made_up_recordings import (
    MIB,
    PID,
    generations,
    phases,
    recording,
    sample,
    snapshot,
)


def kinds(*events: Event) -> set[Kind]:
    return {finding.kind for finding in diagnose(recording(*events)).findings}


def test_a_jump_early_is_warm_up_and_a_jump_later_is_a_level_shift() -> None:
    assert kinds(*generations([100.0] * 2 + [180.0] * 18)) == {Kind.WARM_UP}
    assert kinds(*generations([100.0] * 10 + [180.0] * 10)) == {Kind.LEVEL_SHIFT}


def test_a_jump_that_comes_and_goes_is_no_level() -> None:
    assert Kind.LEVEL_SHIFT not in kinds(*generations([100.0, 100.0, 140.0] * 7))


def test_rise_and_fall_again_and_again_is_a_sawtooth() -> None:
    assert Kind.SAWTOOTH in kinds(*generations([100 + 12 * (i % 5) for i in range(30)]))


@pytest.mark.parametrize("peak", [300, 110])
def test_a_phase_that_peaks_high_is_a_spike(peak: int) -> None:
    events = phases({"save": [0.0] * 12}, peak_bytes=peak * MIB)
    found = kinds(*generations([100.0] * 12), *events)
    assert (Kind.SPIKE in found) == (peak == 300)


def test_file_pages_are_reclaimable() -> None:
    events = [
        replace(event, file_bytes=20 * i * MIB) for i, event in enumerate(generations([100.0] * 12))
    ]
    assert Kind.FILE_PAGES in kinds(*events)


def test_room_that_is_never_reached_is_waste() -> None:
    ring = {"variables/t.py:run.ring": (50, 800)}
    found = kinds(*generations([100.0] * 12), *(snapshot(g, ring) for g in (0, 3, 6, 9)))
    assert found == {Kind.WASTE}


def test_a_full_buffer_is_no_waste_however_much_it_reserved() -> None:
    def found(fill: float | None) -> set[Kind]:
        snapshots = [snapshot(g, {"replay/obs": (50, 800)}, fill=fill) for g in (0, 3, 6, 9)]
        return kinds(*generations([100.0] * 12), *snapshots)

    assert found(None) == {Kind.WASTE}
    assert found(1.0) == set()


def test_two_steps_are_two_new_levels() -> None:
    found = diagnose(recording(*generations([50.0] * 5 + [80.0] * 5 + [110.0] * 16)))
    assert found.findings[0].kind is Kind.LEVEL_SHIFT
    assert "5, 10" in found.findings[0].summary


def test_a_spike_between_two_generations_is_seen_in_samples() -> None:
    levels = [sample(0.5 + i / 4, {PID: 260 if i % 16 == 9 else 100}) for i in range(48)]
    quiet = phases({"train": [0.0] * 12})
    found = diagnose(recording(*generations([100.0] * 12), *quiet, *levels))
    spike = next(finding for finding in found.findings if finding.kind is Kind.SPIKE)
    assert "160.0 MiB" in spike.summary
    assert spike.phase == "train"


def test_growth_while_a_program_starts_is_undecided() -> None:
    """Imports look like a leak: without a loop a short run is not judged."""
    events = [sample(i / 10, {PID: 50 + 8 * i}) for i in range(30)]
    found = diagnose(recording(*events))
    assert found.verdict is Verdict.UNDECIDED
    assert "no loop was seen" in found.reason
