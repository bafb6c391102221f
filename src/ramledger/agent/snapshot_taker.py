"""Snapshots of this process: taken when they are due and the budget allows, one at a time."""

import os
import sys
import threading
import time
from collections.abc import Callable

from ramledger.agent.expected_counts import ExpectedCounts
from ramledger.agent.observer_settings import ObserverSettings
from ramledger.agent.periodic_tasks import Clock
from ramledger.agent.snapshot_event import take_snapshot
from ramledger.agent.snapshot_schedule import SnapshotSchedule, first_snapshot_seconds
from ramledger.events import Event, ExpectationEvent, SnapshotEvent, SnapshotFailedEvent
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.ledger import Statement
from ramledger.measure.own_memory import Meter
from ramledger.measure.run_queue import running_share
from ramledger.objects.census.class_growth import CountHistory
from ramledger.phases.phase_log import END
from ramledger.statement.own import why_failed
from ramledger.time_share import CREDIT_SECONDS, Governor
from ramledger.units import MIB

_GROWTH_REST_SECONDS = 2.0  # between two snapshots that are due by growth
_SETTLED_SECONDS = 5.0  # growth before that is start-up: buffers, first updates
_PEAK_GROWTH, _START_UP_GROWTH = 1.03, 1.2  # of RSS above that of all snapshots: a new peak
_PEAK_CREDIT_SECONDS = 0.3
# A look into a forked worker copies some 17 MiB that it shares: only what grows is worth that,
# and then again after every tenth of its growth.
_WORKER_GROWTH_BYTES, _WORKER_STEP = 24 * MIB, 1.1
_KEPT_FOR_TRAINING = 0.5
_STILL_RISING = 1.002  # from one reading of RSS to the next: its peak is not there yet
_LABELED_WAIT_SECONDS = 5.0
_MOST_SHARE = 2.0  # the cost may be twice the budget, as a share of CPU time
# a snapshot may cost so much, however little of the budget is left
_LEAST_SECONDS, _LEAST_SECONDS_AT_END = 0.2, 2.0
_COUNT_EVERY = 8  # snapshots that count all objects: one in this many ...
_COUNT_COST = 3  # ... at about this many times the cost

Send = Callable[[Event], None]


def working_clock(
    clock: Clock, cpu_clock: Clock, share: Callable[[], float | None] = running_share
) -> Clock:
    """The time that the budget is a share of: on a crowded machine little of it is ours.

    A program that sleeps, for a simulator or a GPU, takes nothing away from anybody.
    """
    born = clock()

    def now() -> float:
        ran = share()
        age = clock() - born
        return min(age, _MOST_SHARE * cpu_clock()) if ran is None else age * ran

    return now


class SnapshotTaker:
    """Decides when to take a snapshot, takes it, and sends what it finds."""

    def __init__(
        self,
        settings: ObserverSettings,
        send: Send,
        *,
        meter: Meter,
        clock: Clock = time.monotonic,
        cost_clock: Clock = time.thread_time,
        cpu_clock: Clock = time.process_time,
        share: Callable[[], float | None] = running_share,
        on_containers: Callable[[dict[str, str]], None] = lambda found_at: None,
    ) -> None:
        self._settings = settings
        self._send = send
        self._meter, self._clock, self._cost_clock = meter, clock, cost_clock
        self._on_containers = on_containers
        credit = settings.credit if settings.budget else 0.0
        self.governor = Governor(
            settings.budget, clock=working_clock(clock, cpu_clock, share), credit=credit
        )
        self.expected = ExpectedCounts(settings.expectations)
        self.latest: Statement | None = None  # of the last snapshot, whoever asked for it
        self._schedule = SnapshotSchedule(clock(), settings.budget)
        self._born = clock()
        self._is_settled = False
        self._taken = 0
        self._highest_bytes = self._last_bytes = meter.rss_bytes()  # of snapshots; last reading
        self._inherited_bytes: int | None = None  # of a worker
        self._looked_at_bytes = 0  # its own growth at the last look
        self._taken_at = float("inf")
        self._cost = self._counting_cost = 0.0
        self._history = CountHistory()
        self._lock = threading.Lock()

    def settle(self) -> None:
        """Growth counts from when the run has settled; called now and then."""
        if not self._is_settled and self._clock() - self._born >= _SETTLED_SECONDS:
            self._is_settled = True
            if not self._taken:
                self._highest_bytes = self._meter.rss_bytes()
            if self._inherited_bytes is None:
                self.count_own_growth()

    def count_own_growth(self) -> None:
        """What is there now was inherited from a parent, or comes with imports."""
        self._inherited_bytes = self._meter.anon_bytes()

    def is_due_in_worker(self) -> bool:
        """Whether it has grown since the last look, by enough to be worth another."""
        return self._own_growth() >= max(_WORKER_GROWTH_BYTES, _WORKER_STEP * self._looked_at_bytes)

    def _own_growth(self) -> int:
        inherited = self._inherited_bytes
        return 0 if inherited is None else self._meter.anon_bytes() - inherited

    def is_due(self, *, in_loop: bool, trains: bool = True) -> bool:
        """By time, or at a new peak: of a run that is killed, the last snapshot matters most."""
        now = self._clock()
        self._schedule.trains = trains
        if self._schedule.is_due(now, in_loop=in_loop, modules=len(sys.modules)):
            return True
        return self._has_grown() and now - self._taken_at >= _GROWTH_REST_SECONDS

    def is_due_at_peak(self) -> bool:
        """Whether RSS has a new peak and rises no more; asked now and then within an iteration."""
        before, self._last_bytes = self._last_bytes, self._meter.rss_bytes()
        is_rising = self._last_bytes > before * _STILL_RISING
        has_rested = self._clock() - self._taken_at >= _GROWTH_REST_SECONDS
        return has_rested and not is_rising and self._has_grown()

    def is_allowed(self) -> bool:
        """Whether the budget allows a snapshot; at a new peak, it has the whole credit and more.

        Before the training, half of the credit is left to it: files that are read make many peaks.
        """
        expected = None if self._taken else first_snapshot_seconds()
        kept = 0.0 if self._schedule.trains else _KEPT_FOR_TRAINING * self._settings.credit
        if self.governor.allows(expected, extra=-kept):
            return True
        if not self._settings.budget or kept:
            return False
        extra = CREDIT_SECONDS - self._settings.credit + _PEAK_CREDIT_SECONDS
        return self._has_grown() and self.governor.allows(expected, extra=extra)

    def may_count_objects(self) -> bool:
        """Counting all objects costs several snapshots: one in eight, if the budget has room."""
        is_turn = self._taken % _COUNT_EVERY == _COUNT_EVERY - 1
        expected = self._counting_cost or self._cost * _COUNT_COST
        return is_turn and self.governor.allows(expected)

    def is_older_than(self, seconds: float) -> bool:
        """Whether the last snapshot is that old, or there is none."""
        return self.latest is None or self._clock() - self._taken_at >= seconds

    def take(
        self, *, generation: int | None, phase: str, count_objects: bool = False, label: str = ""
    ) -> None:
        """Take a snapshot now, if none is in progress; one with a label waits for that."""
        if not self._lock.acquire(timeout=_LABELED_WAIT_SECONDS if label else 0):
            return
        started = self._cost_clock()
        try:
            self._take(generation, phase, count_objects, label)
        except Exception as error:  # a snapshot is not worth a training
            cost_seconds = self._cost_clock() - started
            self.governor.spend(cost_seconds)
            self._schedule.took(self._clock(), cost_seconds)
            self._send(
                SnapshotFailedEvent(
                    t=self._clock(), pid=os.getpid(), generation=generation, phase=phase,
                    label=label, reason=why_failed(error),
                )
            )  # fmt: skip
        finally:
            self._lock.release()

    def _take(self, generation: int | None, phase: str, count_objects: bool, label: str) -> None:
        least = _LEAST_SECONDS_AT_END if label == "end" else _LEAST_SECONDS
        taken = take_snapshot(
            generation=generation,
            phase=phase,
            label=label,
            count_objects=count_objects,
            watched=tuple(self.expected.counts),
            history=self._history,
            allowance=Allowance(max(least, self.governor.left_seconds())),
        )
        event, self.latest = taken.event, taken.statement
        self._taken += 1
        self._highest_bytes = max(self._highest_bytes, self._meter.rss_bytes())
        self._looked_at_bytes = self._own_growth()
        self._taken_at = self._clock()
        if count_objects:
            self._counting_cost = event.cost_seconds
        else:
            self._cost = event.cost_seconds
        self.governor.spend(event.cost_seconds, repeats=not count_objects)
        self._schedule.took(self._taken_at, event.cost_seconds, self._credit_left())
        self._on_containers(taken.containers)
        self._send(event)
        self._send_wrong_counts(event)

    def _credit_left(self) -> float:
        credit = self._settings.credit
        return min(1.0, self.governor.left_seconds() / credit) if credit else 0.0

    def _send_wrong_counts(self, event: SnapshotEvent) -> None:
        if event.phase == END:  # objects are being torn down
            return
        for wrong in self.expected.wrong_in(event.live_objects):
            self._send(
                ExpectationEvent(
                    t=self._clock(), pid=event.pid, type=wrong.type, expected=wrong.expected,
                    found=wrong.found, generation=event.generation, phase=event.phase,
                    paths=event.watched_paths.get(wrong.type, ()),
                )
            )  # fmt: skip

    def _has_grown(self) -> bool:
        growth = _PEAK_GROWTH if self._is_settled else _START_UP_GROWTH
        return self._meter.rss_bytes() >= self._highest_bytes * growth
