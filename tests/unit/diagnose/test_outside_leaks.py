"""Growth in the run's other processes: filling, leaking, closed to us, or ever more of them."""

from dataclasses import replace

import pytest

from ramledger.diagnose.finding import Diagnosis, Kind, Verdict
from ramledger.diagnose.verdict import diagnose
from ramledger.event_parts import ContainerContent
from ramledger.events import Event, ProcessEvent, SnapshotEvent
from tests.support.made_up_recordings import MIB, PID, generations, recording, sample, snapshot

WORKER = 21
TRACE = "variables/Actor.trace"
COUNT = 30


def level(iteration: int, filled_at: int | None) -> float:
    """MiB of a worker that takes 5 more in every iteration, until it is full."""
    return 10 + 5.0 * min(iteration, filled_at if filled_at is not None else COUNT)


def looked_into(filled_at: int | None) -> list[Event]:
    found: list[Event] = []
    for iteration in range(6, COUNT, 3):
        grown = level(iteration, filled_at) - 10
        content = ContainerContent(
            "Actor.trace", type="deque" if filled_at else "list", length=round(grown * 10),
            of="numpy.ndarray", bytes=round(grown * MIB), account=TRACE,
            capacity=filled_at * 50 if filled_at else None,
            added_in=("actor.py:7 in Actor.play: self.trace.append(episode)",),
        )  # fmt: skip
        event: SnapshotEvent = snapshot(
            iteration, {"imports/numpy": 10, TRACE: grown}, containers=(content,)
        )
        found.append(replace(event, pid=WORKER))
    return found


def diagnosed(
    *events: Event, filled_at: int | None = None, has_agent: bool = True, workers: int = 1
) -> Diagnosis:
    samples = [
        sample(
            i / 2 + 0.5,
            {PID: 100, **{WORKER + w: level(i // 2, filled_at) for w in range(workers)}},
        )
        for i in range(2 * COUNT)
    ]
    started = [
        ProcessEvent(t=0.1, pid=WORKER + w, has_agent=has_agent, is_worker=has_agent)
        for w in range(workers)
    ]
    return diagnose(recording(*started, *generations([100.0] * COUNT), *samples, *events))


def test_a_leak_in_a_worker_has_its_owner_and_its_line() -> None:
    found = diagnosed(*looked_into(None))
    (leak,) = found.leaks
    assert leak.culprit.path == "Actor.trace"
    assert leak.bytes_per_generation == pytest.approx(5 * MIB, rel=0.1)
    assert leak.phase == "play"
    assert "self.trace.append" in leak.code.stored_at[0]
    assert [one.pid for one in found.outside] == [WORKER]
    assert found.outside[0].growth[0].account == TRACE


def test_a_buffer_that_fills_in_a_worker_is_no_leak() -> None:
    found = diagnosed(*looked_into(40), filled_at=40)
    assert found.verdict is Verdict.HEALTHY
    filling = [one for one in found.findings if one.kind is Kind.FILLING]
    assert f"worker process {WORKER}" in filling[0].summary


def test_what_cannot_be_looked_into_may_fill_or_leak() -> None:
    found = diagnosed(has_agent=False)
    assert found.verdict is Verdict.UNDECIDED
    assert f"process {WORKER}" in found.reason


def test_a_worker_that_nobody_looked_into_leaks_by_its_level() -> None:
    (leak,) = diagnosed(workers=2).leaks
    assert leak.culprit.path == "children"
    assert leak.bytes_per_generation == pytest.approx(10 * MIB, rel=0.1)


def test_ever_more_processes_leak_though_none_can_be_looked_into() -> None:
    samples = [
        sample(i + 0.5, {PID: 100, **{WORKER + w: 20 for w in range(i)}}) for i in range(COUNT)
    ]
    started = [ProcessEvent(t=w + 0.1, pid=WORKER + w) for w in range(COUNT)]
    found = diagnose(recording(*started, *generations([100.0] * COUNT), *samples))
    assert found.verdict is Verdict.LEAK
