"""The series of a run's other processes, by the iterations of the one that trains."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ramledger.events import ProcessEvent, SampleEvent, SnapshotEvent
from ramledger.run.timeline import Events, Point, Timeline, with_first_counts

FEWEST_POINTS = 3
_MOST = 64  # processes, those that grew most: each is judged by itself


@dataclass(slots=True)
class _Known:
    """What events say of one process."""

    has_agent: bool = False
    inherited_bytes: int = 0
    snapshots: list[SnapshotEvent] = field(default_factory=list)
    samples: list[tuple[float, int]] = field(default_factory=list)


def child_timelines(events: Events, main: Timeline) -> list[Timeline]:
    """Of processes that lived for some iterations, those that grew most first."""
    known = _by_process(events, main.main_pid)
    ends = [(point.t, point.generation) for point in main.points]
    samples = [e for e in events.of_type(SampleEvent) if ends and e.t <= ends[-1][0]]
    for sample in samples:
        for pid, memory in sample.processes.items():
            if pid in known:
                own = max(0, memory.anon_bytes - known[pid].inherited_bytes)
                known[pid].samples.append((sample.t, own))
    found = [_timeline(pid, one, main, ends) for pid, one in known.items()]
    lived = [one for one in found if len(one.points) >= FEWEST_POINTS]
    return sorted(lived, key=lambda one: one.points[0].anon_bytes - one.points[-1].anon_bytes)[
        :_MOST
    ]


def _by_process(events: Events, main_pid: int) -> Mapping[int, _Known]:
    known: dict[int, _Known] = {}
    for event in events.of_type(ProcessEvent):
        if event.pid == main_pid:
            continue
        one = known.setdefault(event.pid, _Known())
        one.has_agent |= event.has_agent
        one.inherited_bytes = event.inherited_bytes or one.inherited_bytes
    for snapshot in events.of_type(SnapshotEvent):
        if snapshot.pid in known:
            known[snapshot.pid].snapshots.append(snapshot)
    return known


def _timeline(pid: int, one: _Known, main: Timeline, ends: Sequence[tuple[float, int]]) -> Timeline:
    """Points at the ends of the training's iterations, while the process lives."""
    times = [t for t, _ in one.samples]
    points = []
    for t, generation in ends:
        at = bisect_left(times, t)
        if at < len(times) and at > 0:
            points.append(Point(generation, t, one.samples[at][1], 0))
    last = ends[-1][0] if ends else 0.0
    return Timeline(
        main_pid=pid,
        by_generation=main.by_generation,
        has_agent=one.has_agent,
        points=points,
        snapshots=with_first_counts(_until(one.snapshots, last)),
        versions=main.versions,
        samples=one.samples,
    )


def _until(snapshots: Iterable[SnapshotEvent], last: float) -> list[SnapshotEvent]:
    return [snapshot for snapshot in snapshots if snapshot.t <= last]
