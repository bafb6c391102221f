"""The events of a run that its diagnosis and its page read again, in bounded memory.

The bounds of a recording are beyond what a recorder writes: only a made-up one is thinned. A run
that is judged while it goes on keeps less, and of old iterations only some.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar, cast

from ramledger.events import (
    AllocatorsEvent,
    Event,
    ExpectationEvent,
    GenerationEvent,
    NamesSnapshotEvent,
    PhaseEvent,
    SampleEvent,
    SnapshotEvent,
)

Kind = TypeVar("Kind", bound=Event)
_NUMBERED: tuple[type[Event], ...] = (
    SnapshotEvent, NamesSnapshotEvent, AllocatorsEvent, ExpectationEvent
)  # fmt: skip


# thinned together: iterations are whole, or gone
_OF_ITERATIONS: tuple[type[Event], ...] = (GenerationEvent, PhaseEvent, AllocatorsEvent)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept; beyond that, every second one."""

    events: int  # of one type
    phases: int
    snapshots: int  # of one process
    all_snapshots: int
    instants: int


WHOLE = Bounds(events=200_000, phases=200_000, snapshots=4000, all_snapshots=4000, instants=50_000)
# a judgement of so much takes about a tenth of a second, and its events a few MiB
LIVE = Bounds(events=300, phases=2400, snapshots=40, all_snapshots=200, instants=600)


@dataclass(frozen=True, slots=True)
class Instant:
    """One sample, and the level of all processes with shared pages counted once."""

    t: float
    level_bytes: int
    low_bytes: int  # since the instant before
    high_bytes: int
    sample: SampleEvent

    def resident_bytes(self, pid: int) -> int:
        memory = self.sample.processes.get(pid)
        return 0 if memory is None else memory.resident_bytes


def merged(one: Instant, other: Instant) -> Instant:
    """The higher of two instants, with the least and the most of both."""
    kept = max((one, other), key=lambda instant: instant.level_bytes)
    return Instant(
        kept.t,
        kept.level_bytes,
        min(one.low_bytes, other.low_bytes),
        max(one.high_bytes, other.high_bytes),
        kept.sample,
    )


class History:
    """Events by type, in the order in which they came."""

    def __init__(self, bounds: Bounds = WHOLE) -> None:
        self._bounds = bounds
        self.instants: list[Instant] = []
        self._kept: dict[type[Event], list[Any]] = {}

    @property
    def in_time_order(self) -> list[Event]:
        """Events of all types."""
        samples = (instant.sample for instant in self.instants)
        return sorted(chain(samples, *self._kept.values()), key=lambda event: event.t)

    def of_type(self, kind: type[Kind]) -> Iterator[Kind]:
        """Events of one type, in order."""
        if kind is SampleEvent:
            return (cast(Kind, instant.sample) for instant in self.instants)
        return iter(self._kept.get(kind, ()))

    def add(self, event: Event) -> None:
        """Any event but a sample."""
        kind = type(event)
        kept = self._kept.setdefault(kind, [])
        kept.append(event)
        if isinstance(event, SnapshotEvent | NamesSnapshotEvent):
            self._thin_snapshots(kind, event.pid)
            return
        most = self._bounds.phases if kind is PhaseEvent else self._bounds.events
        if len(kept) > most and kind in _OF_ITERATIONS:
            self._thin_iterations()
        if len(self._kept[kind]) > most:
            del self._kept[kind][1:-1:2]

    def _thin_snapshots(self, kind: type[Event], pid: int) -> None:
        kept, most = self._kept[kind], self._bounds.snapshots
        own = [event for event in kept if event.pid == pid] if len(kept) > most else []
        if len(own) > most:
            chosen = {id(event) for event in _thinned(own)}
            kept = self._kept[kind] = [e for e in kept if e.pid != pid or id(e) in chosen]
        if len(kept) > self._bounds.all_snapshots:
            self._kept[kind] = _thinned(kept)

    def _thin_iterations(self) -> None:
        """Every second one goes, with its phases and the allocators' books at its end."""
        dropped = {(e.pid, e.generation) for e in self._kept.get(GenerationEvent, ())[1:-1:2]}
        for kind in _OF_ITERATIONS:
            kept = self._kept.get(kind, ())
            self._kept[kind] = [e for e in kept if (e.pid, e.generation) not in dropped]

    def begin_anew(self, pid: int) -> None:
        """Iterations of a process are counted anew: what was counted before is start-up."""
        dropped: tuple[type[Event], ...] = (GenerationEvent, PhaseEvent)
        for kind in dropped:
            self._kept[kind] = [e for e in self._kept.get(kind, ()) if e.pid != pid]
        for kind in _NUMBERED:
            self._kept[kind] = [
                replace(e, generation=None) if e.pid == pid else e for e in self._kept.get(kind, ())
            ]

    def add_sample(self, sample: SampleEvent, t: float, level_bytes: int) -> None:
        total = sum(memory.resident_bytes for memory in sample.processes.values())
        total += other_bytes(sample)
        twice = total - level_bytes  # pages that several processes share
        low, high = (sample.low_bytes or total) - twice, (sample.high_bytes or total) - twice
        self.instants.append(
            Instant(
                round(t, 3), level_bytes, max(0, min(low, level_bytes)), max(high, level_bytes),
                sample,
            )
        )  # fmt: skip
        if len(self.instants) > self._bounds.instants:
            pairs = zip(self.instants[:-1:2], self.instants[1:-1:2], strict=False)
            self.instants = [*(merged(*pair) for pair in pairs), self.instants[-1]]


def other_bytes(sample: SampleEvent) -> int:
    """RSS of the processes that a sample does not list one by one."""
    return 0 if sample.other_processes is None else sample.other_processes.resident_bytes


def _thinned(snapshots: Sequence[Any]) -> list[Any]:
    """Every second one, with the first, the largest and the last."""
    peak = max(range(len(snapshots)), key=lambda at: snapshots[at].statement.rss_bytes)
    chosen = {*range(0, len(snapshots), 2), peak, len(snapshots) - 1}
    return [snapshots[at] for at in sorted(chosen)]
