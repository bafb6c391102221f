"""The one model of a run, fed event by event: live from the recorder, or from a recording.

Pure and bounded: however long the run, what live views need takes a few MiB.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar

from ramledger.event_parts import Plan
from ramledger.events import (
    CurrentPhaseEvent,
    Event,
    ExpectationEvent,
    FunctionGrowthEvent,
    GenerationEvent,
    Header,
    HeadroomEvent,
    IterationsEvent,
    NoteEvent,
    OutsideSnapshotEvent,
    PhaseEvent,
    PlanEvent,
    PressureEvent,
    ProcessEndEvent,
    ProcessEvent,
    ProgramEndEvent,
    ReleaseProbeEvent,
    RemedyEvent,
    RunEndEvent,
    SampleEvent,
    SnapshotEvent,
    SnapshotFailedEvent,
)
from ramledger.ledger import Limit, printable
from ramledger.recording import Recording
from ramledger.run.history import WHOLE, Bounds, History, Instant, other_bytes
from ramledger.run.iterations import Iterations, Planned
from ramledger.run.processes import MAX_PROCESSES, Process, Processes
from ramledger.run.series import Series
from ramledger.run.snapshots import ProcessSnapshots, Snapshots
from ramledger.run.training_end import END, TrainingEnd, is_marked

MAX_NOTES = 40
MAX_FUNCTIONS = 200

Kind = TypeVar("Kind", bound=Event)
Place = tuple[int | None, str]  # iteration and phase


class Run:
    """Everything that is known of a run. Feed it events in order with `take`.

    With `keep_events` it also keeps what a diagnosis and a page read again: `of_type`, `events`,
    `instants`; as much of it as `bounds` say.
    """

    def __init__(
        self, header: Header | None = None, *, keep_events: bool = False, bounds: Bounds = WHOLE
    ) -> None:
        self.header = header or Header()
        self.path = ""  # of the recording that it was read from
        self.damage: tuple[str, ...] = ()  # notes on what of the recording could not be read
        limit = self.header.limit
        self.limit = None if limit is None else Limit(limit.bytes, printable(limit.source))
        self.now_seconds = 0.0
        self.processes = Processes()
        self.snapshots = Snapshots()
        self.iterations = Iterations()
        self.tree = self.processes.total.series  # RSS of all, pages they share counted once
        self.own = Series()  # the same without pages of files, which the kernel takes back
        self.used = Series()  # what counts against the limit, others' memory too
        self.other_bytes = 0  # of processes that samples do not list
        self.peak_bytes = 0
        self.peak_at = 0.0
        self.peak_where: Place = (None, "")
        self.shm_bytes = 0
        self.cgroup_bytes: int | None = None
        self.available_bytes: int | None = None
        self.doing: dict[int, Place] = {}  # by pid
        self.function_growth: Counter[str] = Counter()
        self.expectations: deque[ExpectationEvent] = deque(maxlen=MAX_NOTES)
        self.pressures: deque[PressureEvent] = deque(maxlen=MAX_NOTES)
        self.notes: deque[str] = deque(maxlen=MAX_NOTES)
        self.failed_snapshots = 0
        self.has_bar = False  # the program draws a progress bar now
        self.counted_by = ""  # what counts the iterations of the process that trains
        self.remedies: deque[RemedyEvent] = deque(maxlen=MAX_NOTES)
        self.plan: Plan | None = None
        self.probe: ReleaseProbeEvent | None = None
        self.end: RunEndEvent | None = None
        self._shared_bytes = 0  # counted more than once in the sum of RSS, as last known
        self._sharing: frozenset[int] = frozenset()
        self._iteration_counts: Counter[int] = Counter()
        self._ends: dict[int, TrainingEnd] = {}
        self._history = History(bounds) if keep_events else None

    @classmethod
    def from_recording(cls, recording: Recording) -> Self:
        """The run as it was at the end of a recording, with its events."""
        run = cls(recording.header, keep_events=True)
        for event in recording.events:
            run.take(event)
        run.path, run.damage = recording.path, recording.notes
        run.notes.extend(recording.notes)
        return run

    @classmethod
    def read(cls, path: str) -> Self:
        """The run of a recording; a file that is none is a RecordingError."""
        return cls.from_recording(Recording.read(path))

    def take(self, event: Event) -> None:
        """Take in one event."""
        self.now_seconds = max(self.now_seconds, event.t)
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)
        if self._history is not None and type(event) is not SampleEvent:
            self._history.add(event)

    # ---- what views and the diagnosis ask -----------------------------------------------------

    def of_type(self, kind: type[Kind]) -> Iterator[Kind]:
        """Events of one type, in order; none unless events are kept."""
        return iter(()) if self._history is None else self._history.of_type(kind)

    @property
    def events(self) -> list[Event]:
        """Events of all types in time order; none unless events are kept."""
        return [] if self._history is None else self._history.in_time_order

    @property
    def instants(self) -> list[Instant]:
        """The samples with the level at each; none unless events are kept."""
        return [] if self._history is None else self._history.instants

    @property
    def command(self) -> str:
        return " ".join(self.header.command)

    @property
    def alive(self) -> list[Process]:
        """Processes of the last sample, the largest first."""
        return [row for row in self.processes.alive if row.rss_bytes]

    @property
    def main_pid(self) -> int | None:
        """The process that trains: it has the iterations, or else the most memory.

        Workers of a distributed training count rounds of their own; its driver comes first.
        """
        root_pid, counts = self.processes.root_pid, self._iteration_counts
        if root_pid in counts:
            return root_pid
        if counts:
            return counts.most_common(1)[0][0]
        workers = {row.pid for row in self.processes.rows.values() if row.is_worker}
        largest_pid = self.snapshots.largest_pid(but=workers)
        return root_pid if largest_pid is None else largest_pid

    @property
    def main_snapshots(self) -> ProcessSnapshots | None:
        found, pid = self.snapshots.by_pid, self.main_pid
        first = found.get(pid) if pid is not None else None
        return first or next(iter(found.values()), None)

    def beside_at(self, t: float) -> int:
        """Bytes of all processes but the one that trains, in the sample nearest to a moment."""
        nearest = min(self.instants, key=lambda one: abs(one.t - t), default=None)
        if nearest is None:
            return 0
        return max(0, nearest.level_bytes - nearest.resident_bytes(self.main_pid or 0))

    @property
    def now(self) -> Place:
        """Iteration and phase of the process that trains."""
        return self.doing.get(self.main_pid or 0, (None, ""))

    @property
    def planned(self) -> Planned:
        """How far the training is to go, and its steps so far, as far as anybody said."""
        found = self.iterations.planned(self.main_pid)
        settings = self.header.settings
        if settings is None or settings.iterations is None:
            return found
        first = self.iterations.first_number(self.main_pid)
        return replace(found, last_iteration=first + settings.iterations - 1)

    def growth_per_iteration(self) -> float | None:
        """Bytes by which RSS of the training process grows in an iteration, buffers included."""
        return self.iterations.growth(self.main_pid)

    @property
    def has_limit(self) -> bool:
        return self.limit is not None and self.limit.bytes > 0

    # ---- samples ------------------------------------------------------------------------------

    def _sample(self, event: SampleEvent) -> None:
        self.processes.sampled(event, self.now_seconds)
        self.other_bytes = other_bytes(event)
        resident = self.processes.total.rss_bytes + self.other_bytes
        is_sure = self._update_shared(event, resident)
        level = max(0, resident - self._shared_bytes)
        self.shm_bytes = event.shm_bytes
        self.cgroup_bytes, self.available_bytes = event.cgroup_bytes, event.available_bytes
        self.tree.add(self.now_seconds, level)
        files = sum(memory.file_bytes for memory in event.processes.values())
        self.own.add(self.now_seconds, max(0, level - files))
        self.used.add(self.now_seconds, used_of_limit(event, level, self.limit))
        high = max(level, (event.high_bytes or 0) - self._shared_bytes)
        is_torn_down = self.processes.root_pid in self._ends
        if high > self.peak_bytes and (is_sure or not self.peak_bytes) and not is_torn_down:
            self.peak_bytes, self.peak_at, self.peak_where = high, self.now_seconds, self.now
        if self._history is not None:
            self._history.add_sample(event, self.now_seconds, self.tree.last)

    def _update_shared(self, event: SampleEvent, resident: int) -> bool:
        """RSS counts pages that several processes map several times; PSS is read now and then.

        Returns whether the last PSS covers all processes: forked ones share nearly everything.
        """
        if event.tree_bytes is not None:
            self._shared_bytes = max(0, resident - event.tree_bytes)
            return True
        pids = frozenset(event.processes)
        by_process = self.processes.total.counted_twice_bytes
        if by_process is not None:
            self._shared_bytes = by_process
            return True
        if len(pids) < 2:  # pages shared with processes outside of the run count as its own
            self._shared_bytes, self._sharing = 0, pids
        elif event.tree_pss_bytes is not None:
            self._shared_bytes, self._sharing = max(0, resident - event.tree_pss_bytes), pids
        return pids <= self._sharing

    # ---- other events -------------------------------------------------------------------------

    def _process(self, event: ProcessEvent) -> None:
        known = self.processes.rows.get(event.pid)
        if known is not None and not known.is_alive:
            self.doing.pop(event.pid, None)
            self._ends.pop(event.pid, None)
        self.processes.started(event)

    def _process_end(self, event: ProcessEndEvent) -> None:
        self.processes.has_ended(event, self.now_seconds)

    def _headroom(self, event: HeadroomEvent) -> None:
        self.processes.limited(event)

    def _phase(self, event: PhaseEvent) -> None:
        self.iterations.add_phase(event)
        self._raise_peak(event)
        self._does(event.pid, event.generation, self._phase_of(event.pid))

    def _raise_peak(self, event: PhaseEvent) -> None:
        """What one process had in a phase, all of them had together; samples may have missed it."""
        high = max(event.after_bytes, event.peak_bytes or 0)
        if high > self.peak_bytes and self.processes.root_pid not in self._ends:
            self.peak_bytes, self.peak_at = high, self.now_seconds
            self.peak_where = event.generation, event.name

    def _iterations(self, event: IterationsEvent) -> None:
        """Somebody who knows better counts from here on: what was counted before is start-up."""
        self.iterations.begin_anew(event.pid)
        if event.pid in self.snapshots.by_pid:
            self.snapshots.by_pid[event.pid].begin_anew()
        if self._history is not None:
            self._history.begin_anew(event.pid)
        self._does(event.pid, None, self._phase_of(event.pid))
        if event.pid == self.main_pid:
            self.counted_by = event.counted_by

    def _program_end(self, event: ProgramEndEvent) -> None:
        end = self._ends[event.pid] = TrainingEnd.of([event])
        if len(self._ends) > MAX_PROCESSES:
            del self._ends[next(iter(self._ends))]
        kept = [e for e in self.expectations if e.pid != event.pid or not end.has(e)]
        self.expectations = deque(kept, maxlen=MAX_NOTES)
        if event.pid == self.main_pid and self.peak_at > end.training_at:
            self.peak_where = None, END

    def _generation(self, event: GenerationEvent) -> None:
        self._iteration_counts[event.pid] += 1
        self.iterations.add_iteration(event)
        self._does(event.pid, event.generation, self._phase_of(event.pid))

    def _current_phase(self, event: CurrentPhaseEvent) -> None:
        self._does(event.pid, event.generation, event.phase)
        if event.pid == self.main_pid:
            self.has_bar = event.has_bar

    def _phase_of(self, pid: int) -> str:
        return self.doing.get(pid, (None, ""))[1]

    def _does(self, pid: int, iteration: int | None, phase: str) -> None:
        self.doing[pid] = iteration, phase
        if len(self.doing) > MAX_PROCESSES:
            del self.doing[next(iter(self.doing))]

    def _snapshot(self, event: SnapshotEvent) -> None:
        self.snapshots.add(event)
        if event.label and not is_marked(event):
            self.iterations.add_label(event)

    def _outside_snapshot(self, event: OutsideSnapshotEvent) -> None:
        self._snapshot(SnapshotEvent(t=event.t, pid=event.pid, statement=event.statement))

    def _function_growth(self, event: FunctionGrowthEvent) -> None:
        for name, grown in event.growth_bytes.items():
            self.function_growth[name] += grown
        if len(self.function_growth) > MAX_FUNCTIONS:
            largest = self.function_growth.most_common(MAX_FUNCTIONS // 2)
            self.function_growth = Counter(dict(largest))

    def _expectation(self, event: ExpectationEvent) -> None:
        if not self._ends.get(event.pid, TrainingEnd()).has(event):
            self.expectations.append(event)

    def _pressure(self, event: PressureEvent) -> None:
        self.pressures.append(event)

    def _note(self, event: NoteEvent) -> None:
        self._add_note(event.text)

    def _snapshot_failed(self, event: SnapshotFailedEvent) -> None:
        self.failed_snapshots += 1
        self._add_note(f"a snapshot failed: {event.reason}")

    def _add_note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _plan(self, event: PlanEvent) -> None:
        self.plan = event.plan

    def _remedy(self, event: RemedyEvent) -> None:
        said = {(one.name, one.text) for one in self.remedies}  # each worker says the same
        if (event.name, event.text) not in said:
            self.remedies.append(
                replace(event, name=printable(event.name), text=printable(event.text))
            )

    def _release_probe(self, event: ReleaseProbeEvent) -> None:
        self.probe = event

    def _run_end(self, event: RunEndEvent) -> None:
        self.end = event
        if not len(self.tree):  # else the series is better: it counts shared pages once
            self.peak_bytes = event.peak_bytes or 0


def used_of_limit(sample: SampleEvent, level_bytes: int, limit: Limit | None) -> int:
    """Against a control group's limit counts what the group holds, against ours the tree.

    The group's count may be seconds old, and what processes have to themselves is in it for sure;
    pages of files may have been counted to another group that read them first.
    """
    source = limit.source if limit else ""
    usage, available = sample.cgroup_bytes, sample.available_bytes
    if "cgroup" in source and usage is not None:
        files = sum(memory.file_bytes for memory in sample.processes.values())
        return max(usage, level_bytes - files)
    if source == "host RAM" and limit and available is not None:
        return max(level_bytes, limit.bytes - available)
    return level_bytes


_HANDLERS: Mapping[type[Event], Callable[[Run, Any], None]] = {
    ProcessEvent: Run._process,
    ProcessEndEvent: Run._process_end,
    SampleEvent: Run._sample,
    HeadroomEvent: Run._headroom,
    PhaseEvent: Run._phase,
    GenerationEvent: Run._generation,
    IterationsEvent: Run._iterations,
    ProgramEndEvent: Run._program_end,
    CurrentPhaseEvent: Run._current_phase,
    SnapshotEvent: Run._snapshot,
    OutsideSnapshotEvent: Run._outside_snapshot,
    FunctionGrowthEvent: Run._function_growth,
    ExpectationEvent: Run._expectation,
    PressureEvent: Run._pressure,
    NoteEvent: Run._note,
    SnapshotFailedEvent: Run._snapshot_failed,
    PlanEvent: Run._plan,
    ReleaseProbeEvent: Run._release_probe,
    RemedyEvent: Run._remedy,
    RunEndEvent: Run._run_end,
}
