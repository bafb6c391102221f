"""A run as series: levels by generation, growth by phase, owners by snapshot.

Where a run has too few generations, equal stretches of time stand for them.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple, Protocol, TypeVar

from ramledger.events import (
    AllocatorsEvent,
    Event,
    FunctionGrowthEvent,
    GenerationEvent,
    IterationsEvent,
    NamesSnapshotEvent,
    PhaseEvent,
    ProcessEvent,
    ProgramEndEvent,
    ReleaseProbeEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.run.one_snapshot import Snapshot
from ramledger.run.training_end import TrainingEnd

MIN_GENERATIONS = 5
MAX_STRETCHES = 60
_FEWEST_STRETCHES = 12
_MOST_AROUND = 64  # samples around the end of a generation; of more, some are enough
_CLEANUP = 0.3  # of the usual time: shorter generations at the end are another loop's

Kind = TypeVar("Kind", bound=Event)
OwnEvent = (
    AllocatorsEvent
    | FunctionGrowthEvent
    | GenerationEvent
    | NamesSnapshotEvent
    | PhaseEvent
    | ProgramEndEvent
    | ReleaseProbeEvent
    | IterationsEvent
    | SnapshotEvent
)
OwnKind = TypeVar("OwnKind", bound=OwnEvent)


class Events(Protocol):
    """All that a timeline asks of a run, or of one process of a cluster."""

    def of_type(self, kind: type[Kind]) -> Iterator[Kind]: ...


@dataclass(frozen=True, slots=True)
class Point:
    """Levels at the end of one generation."""

    generation: int
    t: float
    anon_bytes: int
    file_bytes: int
    children_bytes: int = 0  # anonymous memory of all other processes of the run
    shm_bytes: int = 0  # in /dev/shm, whoever maps it
    malloc_in_use_bytes: int | None = None
    malloc_free_bytes: int | None = None
    python_in_use_bytes: int | None = None

    @property
    def in_use_bytes(self) -> float:
        """What malloc and Python have handed out, as far as they say."""
        return float((self.malloc_in_use_bytes or 0) + (self.python_in_use_bytes or 0))


@dataclass(frozen=True, slots=True)
class PhaseGrowth:
    """One phase within one generation."""

    name: str
    generation: int
    growth_bytes: float  # of all its passes, measured ones standing for the others
    peak_bytes: int
    before_bytes: int
    seconds: float
    origin: str
    children_growth_bytes: int = 0
    shm_growth_bytes: int = 0
    passes: int = 1


class Outside(NamedTuple):
    """What one sample shows of memory outside of the main process."""

    t: float
    children_bytes: int  # of all other processes of the run
    shm_bytes: int  # in /dev/shm, whoever maps it


@dataclass(slots=True)
class Timeline:
    """The series that a diagnosis is made from."""

    main_pid: int = 0
    by_generation: bool = False  # False: points are equal stretches of time
    points: list[Point] = field(default_factory=list)
    phases: list[PhaseGrowth] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    names_snapshots: list[Snapshot] = field(default_factory=list)  # no object is counted in these
    end_snapshot: Snapshot | None = None  # after the training: some of it may be freed already
    function_growth: list[FunctionGrowthEvent] = field(default_factory=list)
    # elements added, by the container's path and the phase
    elements_added: dict[str, Counter[str]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    release_probe: ReleaseProbeEvent | None = None
    allocators_at_exit: AllocatorsEvent | None = None  # when the program's locals are gone
    outside: list[Outside] = field(default_factory=list)  # by sample
    samples: list[tuple[float, int]] = field(default_factory=list)  # t, anonymous bytes
    worker_counts: list[tuple[float, int]] = field(default_factory=list)
    has_agent: bool = True  # or the process is known from outside only
    few_generations: list[Point] = field(default_factory=list)  # too few to judge by

    @property
    def rate_unit(self) -> tuple[str, float]:
        """What a rate is per, and how many points that is: a generation, or a minute."""
        if self.by_generation:
            return "generation", 1.0
        seconds = median([b.t - a.t for a, b in pairwise(self.points)] or [0.0])
        return "minute", 60 / seconds if seconds else 1.0

    def generation_at(self, t: float) -> float:
        """The generation at a time, with its fraction; before the first and after the last, theirs.

        Snapshots carry the number of their moment, which may start again: this one only rises.
        """
        points = self.points
        after = bisect_right(points, t, key=lambda point: point.t)
        if after == 0 or after == len(points):
            return float(points[min(after, len(points) - 1)].generation) if points else 0.0
        left, right = points[after - 1], points[after]
        share = (t - left.t) / (right.t - left.t) if right.t > left.t else 0.0
        return left.generation + share * (right.generation - left.generation)


def build_timeline(events: Events) -> Timeline:
    """The series of a run, or of one process of it."""
    main_pid = _main_pid(events)
    own = _EventsOf(events, main_pid)
    end = TrainingEnd.of(own.of_type(ProgramEndEvent))
    samples = [e for e in events.of_type(SampleEvent) if e.t <= end.training_at]
    children = _Children(events, main_pid)
    outside = [Outside(e.t, children.bytes_in(e), e.shm_bytes) for e in samples]
    generations = points = _generation_points(own, end, outside)
    by_generation = len(points) >= MIN_GENERATIONS
    if not by_generation:
        began = _training_began(own, points, [event.t for event in samples])
        points = _time_points(main_pid, samples, outside, since=began)
    snapshots = with_first_counts([e for e in own.of_type(SnapshotEvent) if not end.has(e)])
    after = [e for e in own.of_type(SnapshotEvent) if end.has(e)]
    versions: dict[str, str] = {}
    for event in own.of_type(SnapshotEvent):
        versions.update(event.versions)
    return Timeline(
        main_pid=main_pid,
        by_generation=by_generation,
        few_generations=[] if by_generation else generations,
        points=points,
        phases=_phases(own, points[0].generation if by_generation else None),
        snapshots=snapshots,
        end_snapshot=Snapshot.of(after[0]) if after else None,
        names_snapshots=[
            Snapshot.of_names(e) for e in own.of_type(NamesSnapshotEvent) if not end.has(e)
        ],
        function_growth=list(own.of_type(FunctionGrowthEvent)),
        elements_added=_elements_added(own),
        versions=versions,
        release_probe=_best_probe(list(own.of_type(ReleaseProbeEvent))),
        allocators_at_exit=_allocators_at_exit(own, end),
        outside=outside,
        samples=[(e.t, row.anon_bytes) for e in samples if (row := e.processes.get(main_pid))],
        worker_counts=[(e.t, len(e.processes) - 1) for e in samples],
    )


def _main_pid(events: Events) -> int:
    """The process with most generations, else most snapshots; else the first one announced."""
    workers = {event.pid for event in events.of_type(ProcessEvent) if event.is_worker}
    for found in (
        Counter(event.pid for event in events.of_type(GenerationEvent)),
        Counter(e.pid for e in events.of_type(SnapshotEvent) if e.pid not in workers),
        Counter(event.pid for event in events.of_type(FunctionGrowthEvent)),
    ):
        if found:
            return found.most_common(1)[0][0]
    first = next(events.of_type(ProcessEvent), None)
    return first.pid if first is not None else 0


class _EventsOf:
    """The events of one process."""

    def __init__(self, events: Events, pid: int) -> None:
        self._events = events
        self._pid = pid

    def of_type(self, kind: type[OwnKind]) -> Iterator[OwnKind]:
        return (event for event in self._events.of_type(kind) if event.pid == self._pid)


def _training_began(own: _EventsOf, points: Sequence[Point], times: Sequence[float]) -> float:
    """When start-up was over: after the first generation, or when somebody began to count them.

    Not what comes last: a model that is saved at the end is no beginning.
    """
    found = [points[0].t] if len(points) > 1 else [e.t for e in own.of_type(IterationsEvent)]
    is_late = not found or len(times) - bisect_left(times, found[-1]) < _FEWEST_STRETCHES
    return 0.0 if is_late else found[-1]


def _elements_added(events: _EventsOf) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for event in events.of_type(GenerationEvent):
        for path, by_phase in event.elements_added.items():
            found.setdefault(path, Counter()).update(by_phase)
    return found


def with_first_counts(events: Sequence[SnapshotEvent]) -> list[Snapshot]:
    """A class is listed once it is seen to grow; later snapshots hold its first count."""
    began: dict[str, int] = {}
    for event in events:
        began = {**event.first_live_objects, **began}
    snapshots = [Snapshot.of(event) for event in events]
    if snapshots:
        counts = {**began, **snapshots[0].live_objects}
        snapshots[0] = replace(snapshots[0], live_objects=counts)
    return snapshots


def _best_probe(probes: Sequence[ReleaseProbeEvent]) -> ReleaseProbeEvent | None:
    """The last one of the living program; else that at its exit, when its variables are gone."""
    live = [probe for probe in probes if probe.is_live]
    return next(reversed(live or probes), None)


def _allocators_at_exit(events: _EventsOf, end: TrainingEnd) -> AllocatorsEvent | None:
    found = [event for event in events.of_type(AllocatorsEvent) if end.has(event)]
    return found[-1] if found else None


class _Children:
    """Memory of the run's other processes, less the pages that a fork shares with its parent."""

    def __init__(self, events: Events, main_pid: int) -> None:
        self._main_pid = main_pid
        self._inherited = {
            event.pid: event.inherited_bytes
            for event in events.of_type(ProcessEvent)
            if event.inherited_bytes is not None
        }

    def bytes_in(self, sample: SampleEvent) -> int:
        total = sum(
            max(0, memory.anon_bytes - self._inherited.get(pid, 0))
            for pid, memory in sample.processes.items()
            if pid != self._main_pid
        )
        others = sample.other_processes
        if others is not None:  # too many to be listed one by one
            total += max(0, others.anon_bytes - sample.other_inherited_bytes)
        return total


def _generation_points(own: _EventsOf, end: TrainingEnd, outside: Sequence[Outside]) -> list[Point]:
    allocators = {e.generation: e for e in own.of_type(AllocatorsEvent) if not end.has(e)}
    times = [row.t for row in outside]
    points: list[Point] = []
    events = [event for event in own.of_type(GenerationEvent) if not end.has(event)]
    gaps = [abs(b.t - a.t) for a, b in pairwise(events)]
    half = median(gaps) / 2 if gaps else 0.0
    for event in events:
        at = event.t
        here = outside[min(bisect_left(times, at), len(times) - 1)] if outside else None
        # what other processes take for a moment is not their level
        first, last = bisect_left(times, at - half / 2), bisect_right(times, at + half)
        around = outside[first : last : 1 + max(0, last - first) // _MOST_AROUND]
        children = min(
            (row.children_bytes for row in around), default=here.children_bytes if here else 0
        )
        found = allocators.get(event.generation)
        points.append(
            Point(
                event.generation,
                at,
                event.anon_bytes,
                event.file_bytes,
                children,
                here.shm_bytes if here else 0,
                found.malloc_in_use_bytes if found else None,
                found.malloc_free_bytes if found else None,
                found.python_in_use_bytes if found else None,
            )
        )
    origins = [event.origin for event in events]
    points = _numbered_upwards(points[_last_change(origins) :])
    return _without_cleanup(points) if "inferred" in origins else points


def _last_change(origins: Sequence[str]) -> int:
    """Where the last kind of generation begins: a framework's own, before the loop was known."""
    at = len(origins)
    while at and origins[at - 1] == origins[-1]:
        at -= 1
    return at


def _numbered_upwards(points: list[Point]) -> list[Point]:
    """Numbers that start again, with every trial or once the outer loop is known, go on instead."""
    if len({point.generation for point in points}) == len(points):
        return sorted(points, key=lambda point: point.generation)  # a clock may go backwards
    return [replace(point, generation=i) for i, point in enumerate(points)]


def _without_cleanup(points: list[Point]) -> list[Point]:
    """Without the generations of a short loop that cleans up after the training loop."""
    gaps = sorted(b.t - a.t for a, b in pairwise(points))
    if len(gaps) < 2 * MIN_GENERATIONS:
        return points
    short = _CLEANUP * gaps[len(gaps) // 2]
    last = len(points)
    while last > 2 and points[last - 1].t - points[last - 2].t < short:
        last -= 1
    return points[:last] if len(points) - last >= 2 else points


def _time_points(
    main_pid: int, samples: Sequence[SampleEvent], outside: Sequence[Outside], since: float
) -> list[Point]:
    rows = [
        (out, memory)
        for event, out in zip(samples, outside, strict=True)
        if out.t >= since and (memory := event.processes.get(main_pid)) is not None
    ]
    if len(rows) > MAX_STRETCHES:
        step = len(rows) / MAX_STRETCHES
        rows = [rows[int(i * step)] for i in range(MAX_STRETCHES)]
    return [
        Point(i, out.t, memory.anon_bytes, memory.file_bytes, out.children_bytes, out.shm_bytes)
        for i, (out, memory) in enumerate(rows)
    ]


def _phases(events: _EventsOf, first: int | None) -> list[PhaseGrowth]:
    """Growth by phase since the first generation, less what was released for earlier phases."""
    found = [_phase(event) for event in events.of_type(PhaseEvent)]
    for event in events.of_type(GenerationEvent):
        for name, size in event.net_growth_bytes.items():
            if name:
                found.append(PhaseGrowth(name, event.generation, float(size), 0, 0, 0.0, ""))
    if first is None:
        return found
    return sorted((p for p in found if p.generation >= first), key=lambda p: p.generation)


def _phase(event: PhaseEvent) -> PhaseGrowth:
    return PhaseGrowth(
        event.name,
        event.generation or 0,
        float(event.grown_bytes),
        event.peak_bytes,
        event.before_bytes,
        event.seconds,
        event.origin,
        event.children_growth_bytes,
        event.shm_growth_bytes,
        max(1, event.passes),
    )
