"""Growth that is no leak gets its name."""

import pytest

from ramledger.diagnose.finding import Kind
from ramledger.diagnose.judge import diagnose
from tests.diagnose.recorded import MIB, generations, look, phases, recording


def kinds(*events: dict[str, object]) -> set[Kind]:
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
    events = phases({"save": [0.0] * 12})
    for event in events:
        event["peak_bytes"] = peak * MIB
    found = kinds(*generations([100.0] * 12), *events)
    assert (Kind.SPIKE in found) == (peak == 300)


def test_file_pages_are_reclaimable() -> None:
    events = generations([100.0] * 12)
    for i, event in enumerate(events):
        event["file_bytes"] = 20 * i * MIB
    assert Kind.FILE_PAGES in kinds(*events)


def test_room_that_is_never_reached_is_waste() -> None:
    ring = {"variables/t.py:run.ring": (50, 800)}
    found = kinds(*generations([100.0] * 12), *(look(g, ring) for g in (0, 3, 6, 9)))
    assert found == {Kind.WASTE}
