"""The verdict on levels whose truth the test made."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.diagnose.finding import Cause, Kind, Verdict
from ramledger.diagnose.verdict import diagnose
from ramledger.event_parts import ContainerContent
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


@given(st.floats(0.5, 200), st.floats(20, 5000), st.integers(10, 60))
@settings(max_examples=40, deadline=None)
def test_a_steady_rise_is_a_leak_at_its_rate(rate: float, start: float, count: int) -> None:
    found = diagnose(recording(*generations([start + rate * i for i in range(count)])))
    assert found.verdict is Verdict.LEAK
    assert found.leaks[0].bytes_per_generation == pytest.approx(rate * MIB, rel=0.05)
    assert found.leaks[0].onset_generation == 0


@given(st.floats(20, 5000), st.integers(6, 60))
@settings(max_examples=40, deadline=None)
def test_a_flat_level_is_healthy(level: float, count: int) -> None:
    assert diagnose(recording(*generations([level] * count))).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("onset", [5, 12, 30, 60])
def test_a_late_leak_is_found_within_twelve_generations(onset: int) -> None:
    levels = [100 + 8 * max(0, i - onset) for i in range(onset + 13)]
    found = diagnose(recording(*generations(levels)))
    assert found.verdict is Verdict.LEAK
    assert found.leaks[0].onset_generation == pytest.approx(onset, abs=1)
    assert found.leaks[0].bytes_per_generation == pytest.approx(8 * MIB, rel=0.2)


@pytest.mark.xfail(reason="called healthy: its last third happens to rise less", strict=True)
def test_a_slow_leak_under_noise_is_undecided_while_the_run_is_short() -> None:
    rng = random.Random(3)
    levels = [100 + 2 * i + rng.uniform(0, 60) for i in range(10)]
    found = diagnose(recording(*generations(levels)))
    assert found.verdict is Verdict.UNDECIDED


def test_too_few_generations_are_undecided_and_say_how_many_more() -> None:
    found = diagnose(recording(*generations([100, 110, 120, 130, 140])))
    assert found.verdict is Verdict.UNDECIDED
    assert "1 more" in found.reason


def test_since_leaves_the_early_growth_out() -> None:
    levels = [100 + 20 * min(i, 14) for i in range(30)]
    assert diagnose(recording(*generations(levels)), since=15).verdict is Verdict.HEALTHY


def test_the_phase_is_that_of_the_growth() -> None:
    events: list[Event] = [*generations([100 + 5 * i for i in range(12)])]
    events += phases({"collect": [0.0] * 12, "learn": [5.0] * 12})
    assert diagnose(recording(*events)).leaks[0].phase == "learn"


def test_a_filling_buffer_is_taken_out_of_the_phase_and_of_the_rate() -> None:
    events: list[Event] = [*generations([100 + 13 * i for i in range(16)])]
    events += phases({"collect": [8.0] * 16, "learn": [5.0] * 16})
    events += [
        snapshot(i, {"variables/t.py:run.ring": (8 * (i + 1), 400),
                 "variables/t.py:run.log": 5 * (i + 1)})
        for i in range(0, 16, 3)
    ]  # fmt: skip
    found = diagnose(recording(*events))
    assert {finding.kind for finding in found.findings} >= {Kind.LEAK, Kind.FILLING}
    assert found.leaks[0].phase == "learn"
    assert found.leaks[0].bytes_per_generation == pytest.approx(5 * MIB, rel=0.2)
    assert any("fills buffers" in line for line in found.leaks[0].evidence)


def test_shared_memory_that_grows_is_outside_the_process() -> None:
    samples = [sample(i + 0.9, {PID: 100}, shm_bytes=6 * MIB * i) for i in range(14)]
    found = diagnose(recording(*generations([100.0] * 14), *samples))
    assert found.verdict is Verdict.LEAK
    assert found.leaks[0].cause is Cause.OUTSIDE_PROCESS


def test_what_interpolation_leaves_of_a_filling_buffer_is_no_leak() -> None:
    events: list[Event] = [*generations([100 + 8.4 * i for i in range(16)])]
    events += [
        snapshot(i, {"variables/t.py:run.ring": (8 * (i + 1), 400)}) for i in range(0, 16, 3)
    ]
    found = diagnose(recording(*events))
    assert found.verdict is Verdict.HEALTHY
    assert found.findings[0].kind is Kind.FILLING


def test_the_phase_that_adds_to_the_container_counts_more_than_where_rss_rises() -> None:
    path = "t.py:run.agent.log"
    log = [
        snapshot(
            g,
            {f"variables/{path}": 5 * g},
            containers=(
                ContainerContent(
                    path, "list", g, "numpy.ndarray", 5 * g * MIB, f"variables/{path}"
                ),
            ),
        )
        for g in (1, 6, 11)
    ]
    levels = generations([100.0 + 5 * i for i in range(12)], elements_added={path: {"log": 1}})
    rises = phases({"train": [5.0] * 12, "log": [0.0] * 12})
    [leak] = diagnose(recording(*levels, *rises, *log)).leaks
    assert (leak.phase, leak.culprit.path) == ("log", path)
    assert "12 elements were added while log ran" in leak.evidence


def test_what_snapshots_show_to_grow_is_no_leak_once_the_level_is_flat() -> None:
    path = "variables/t.py:run.slots"
    seen = [snapshot(g, {path: min(7 * g, 140)}) for g in (2, 5, 9, 14, 22)]
    flat = [100.0 + min(7 * g, 140) for g in range(32)]
    assert diagnose(recording(*generations(flat), *seen)).verdict is Verdict.HEALTHY


def test_a_leak_beside_a_buffer_is_found_where_generations_are_reported_many_at_a_time() -> None:
    """Rates are by generation, what fills is known by point: 80 generations apart."""
    events = generations([100.0 + 140 * i for i in range(12)])
    events = [replace(event, generation=80 * event.generation) for event in events]
    snapshots = [
        snapshot(80 * g, {"replay/observations": (10 + 40 * g, 2000)}, t=g + 1.1) for g in (0, 4, 8)
    ]
    assert diagnose(recording(*events, *snapshots)).verdict is Verdict.LEAK
