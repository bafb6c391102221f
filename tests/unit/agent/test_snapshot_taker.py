"""When a snapshot is due, by clocks and sizes that only the test sets."""

from typing import Any

import pytest

from ramledger.agent import snapshot_taker
from ramledger.agent.observer_settings import ObserverSettings
from ramledger.agent.snapshot_event import TakenSnapshot
from ramledger.agent.snapshot_taker import SnapshotTaker
from ramledger.events import Event, ExpectationEvent, SnapshotEvent, SnapshotFailedEvent
from ramledger.ledger import Statement
from ramledger.measure.own_memory import Meter

EMPTY = Statement(1, "", 0.0, 0, ())


class FakeMeter(Meter):
    def __init__(self) -> None:
        self.size = 100 << 20

    def rss_bytes(self) -> int:
        return self.size


class Process:
    """A process with a clock, a size, and snapshots of a given cost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now, self.spent, self.cost = 0.0, 0.0, 0.01
        self.share: float | None = 1.0
        self.meter = FakeMeter()
        self.sent: list[Event] = []
        self.counted_objects: list[bool] = []
        self.error: Exception | None = None
        monkeypatch.setattr(snapshot_taker, "take_snapshot", self._look)
        self.taker = SnapshotTaker(
            ObserverSettings(recorder="", **settings),
            self.sent.append,
            meter=self.meter,
            clock=lambda: self.now,
            cost_clock=lambda: self.spent,
            cpu_clock=lambda: self.now,
            share=lambda: self.share,
        )

    def _look(self, *, count_objects: bool, **_: Any) -> TakenSnapshot:
        self.spent += self.cost
        if self.error is not None:
            raise self.error
        self.counted_objects.append(count_objects)
        event = SnapshotEvent(
            t=self.now, pid=1, statement=EMPTY, live_objects={"a.Env": 3}, cost_seconds=self.cost
        )
        return TakenSnapshot(event, EMPTY, {})

    def take_until(self, seconds: float) -> int:
        """Take all snapshots that are due and allowed, offered ten times a second."""
        before = len(self.sent)
        while self.now < seconds:
            self.now += 0.1
            self.taker.settle()
            if self.taker.is_due(in_loop=True) and self.taker.is_allowed():
                self.taker.take(
                    generation=1, phase="", count_objects=self.taker.may_count_objects()
                )
        return len(self.sent) - before


def test_the_cost_of_all_snapshots_stays_inside_budget_and_credit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process(monkeypatch, budget=0.01)
    process.cost = 0.2
    process.take_until(600)
    assert 0 < process.spent <= 0.45 + 0.01 * 600


def test_on_a_crowded_machine_the_budget_is_a_share_of_what_is_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process(monkeypatch, budget=0.01)
    process.cost, process.share = 0.2, 0.25
    process.take_until(600)
    assert 0 < process.spent <= 0.45 + 0.01 * 0.25 * 600


def test_without_a_budget_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Process(monkeypatch, budget=0.0).take_until(100) == 0


def test_one_in_eight_counts_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    process.take_until(2000)
    assert process.counted_objects.index(True) == 7


def test_growth_makes_one_due_but_not_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    process.take_until(1000)
    process.now += 1.0
    process.taker.take(generation=1, phase="")
    process.now += 1.0
    assert not process.taker.is_due(in_loop=True)
    process.meter.size = 105 << 20
    assert not process.taker.is_due(in_loop=True)
    process.now += 1.5
    assert process.taker.is_due(in_loop=True)


def test_growth_of_the_start_counts_from_when_the_run_has_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process(monkeypatch, budget=0.0)
    process.meter.size = 150 << 20
    process.take_until(6.0)
    assert not process.taker._has_grown()
    process.meter.size = 157 << 20
    assert process.taker._has_grown()


def test_a_failure_is_an_event_and_its_cost_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    process.error = RuntimeError("odd object")
    process.taker.take(generation=4, phase="train", label="here")
    [event] = process.sent
    assert isinstance(event, SnapshotFailedEvent)
    assert "odd object" in event.reason
    assert process.taker.governor.spent_seconds == process.cost


def test_a_wrong_count_is_sent_after_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, expectations={"Env": 2})
    process.taker.take(generation=1, phase="")
    assert list(map(type, process.sent)) == [SnapshotEvent, ExpectationEvent]


def test_peaks_before_the_training_leave_it_half_of_the_credit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process(monkeypatch, budget=0.01)
    process.cost = 0.1
    for _ in range(20):  # a file every two seconds, each half as large as all before it
        process.now += 2.1
        process.meter.size = process.meter.size * 3 // 2
        if process.taker.is_due(in_loop=True, trains=False) and process.taker.is_allowed():
            process.taker.take(generation=None, phase="")
    assert 0 < process.spent <= 0.45 / 2 + 0.01 * process.now
    process.meter.size *= 2
    process.now += 2.1
    assert process.taker.is_due(in_loop=True, trains=True)
    assert process.taker.is_allowed()
