"""RSS from iteration to iteration and from phase to phase, in bounded memory."""

from dataclasses import dataclass, field
from typing import Any

from ramledger.events import GenerationEvent, PhaseEvent, SnapshotEvent
from ramledger.run.shapes import Fit, fit
from ramledger.units import MIB

MAX_ITERATIONS = 96
MAX_PHASES = 40
_INFERRED = "inferred"  # origin of a phase that is a function of the loop
_WORTH_SHARE, _WORTH_BYTES = 0.002, 1 << 20  # of the time of all phases; of growth
MAX_LABELS = 60
MAX_PROCESSES = 64
_RECENT = 24  # iterations that are never thinned out
_LEAST = 3  # iterations before growth means anything
_REFIT = 1.1  # times as many iterations: fewer more do not change what they say


@dataclass(frozen=True, slots=True)
class PhaseInIteration:
    """RSS after one phase within one iteration, and at its most."""

    name: str
    after_bytes: int
    peak_bytes: int


@dataclass(slots=True)
class Iteration:
    """One iteration of one process; RSS is 0 until its end is reported."""

    generation: int
    t: float
    rss_bytes: int = 0
    phases: dict[str, PhaseInIteration] = field(default_factory=dict)
    index: int = 0  # among all that were reported


@dataclass(slots=True)
class PhaseTotal:
    """All passes through one phase of one process.

    `growth_bytes` is net: less what was released later, and without phases within.
    """

    name: str
    is_inferred: bool = False
    passes: int = 0
    seconds: float = 0.0
    growth_bytes: int = 0
    peak_bytes: int = 0
    iterations: int = 0

    def is_idle(self, all_seconds: float) -> bool:
        """Whether it was found in the loop, and does next to nothing."""
        is_brief = self.seconds < _WORTH_SHARE * all_seconds
        return self.is_inferred and is_brief and abs(self.growth_bytes) < _WORTH_BYTES

    @property
    def growth_per_iteration(self) -> float:
        return self.growth_bytes / self.iterations if self.iterations else 0.0


@dataclass(frozen=True, slots=True)
class Planned:
    """Where the training is to end; None where nobody says."""

    last_iteration: int | None = None
    steps: int | None = None  # so far
    last_step: int | None = None


@dataclass(frozen=True, slots=True)
class Labeled:
    """RSS at a snapshot that the user named."""

    pid: int
    t: float
    label: str
    rss_bytes: int


class Iterations:
    """Iterations, phases and labeled snapshots of all processes."""

    def __init__(self) -> None:
        self.labels: list[Labeled] = []
        self._rows: dict[int, dict[int, Iteration]] = {}
        self._totals: dict[int, dict[str, PhaseTotal]] = {}
        self._between: dict[int, int] = {}
        self._planned: dict[int, Planned] = {}
        self._first: dict[int, int] = {}
        self._first_steps: dict[int, tuple[int, int]] = {}  # iteration, steps at its end
        self._fits: dict[int, tuple[int, Fit]] = {}  # with the last iteration that is in it

    def begin_anew(self, pid: int) -> None:
        """What was counted so far is start-up."""
        kept: dict[int, Any]
        for kept in (
            self._rows, self._totals, self._between, self._planned, self._first,
            self._first_steps, self._fits,
        ):  # fmt: skip
            kept.pop(pid, None)

    def add_phase(self, event: PhaseEvent) -> None:
        after = event.after_bytes
        done = PhaseInIteration(event.name, after, event.peak_bytes or after)
        totals = self._totals.get(event.pid, {})
        if len(self._totals) >= MAX_PROCESSES and not totals:
            return
        if len(totals) >= MAX_PHASES and done.name not in totals:
            return
        self._totals[event.pid] = totals
        is_inferred = event.origin == _INFERRED
        total = totals.setdefault(done.name, PhaseTotal(done.name, is_inferred))
        total.passes += event.passes or 1
        total.seconds += event.seconds
        total.growth_bytes += event.grown_bytes
        total.peak_bytes = max(total.peak_bytes, done.peak_bytes)
        total.iterations += 1
        if event.generation is not None:
            self._row(event.pid, event.generation, event.t).phases[done.name] = done

    def add_iteration(self, event: GenerationEvent) -> None:
        row = self._row(event.pid, event.generation, event.t)
        if event.pid in self._rows:
            self._first.setdefault(event.pid, event.generation)
            if event.steps is not None:
                self._first_steps.setdefault(event.pid, (event.generation, event.steps))
            last = event.last_generation
            self._planned[event.pid] = Planned(
                self._by_steps(event) if last is None else last, event.steps, event.planned_steps
            )
        self._add_net(event)
        row.t = event.t
        if event.is_final:  # measured at exit: it ended with its last phase
            row.rss_bytes = max((p.after_bytes for p in list(row.phases.values())[-1:]), default=0)
            return
        row.rss_bytes = event.rss_bytes or event.anon_bytes + event.file_bytes + event.shmem_bytes

    def _by_steps(self, event: GenerationEvent) -> int | None:
        """The last iteration, where steps are planned, by the steps of an iteration so far."""
        if event.steps is None or event.planned_steps is None:
            return None
        first, begun = self._first_steps.get(event.pid, (event.generation, event.steps))
        if event.steps <= begun or event.planned_steps <= event.steps:
            return None
        pace = (event.generation - first) / (event.steps - begun)
        return event.generation + round(pace * (event.planned_steps - event.steps))

    def _add_net(self, event: GenerationEvent) -> None:
        """Changes that belong to phases of earlier iterations, or to the time between phases."""
        totals = self._totals.get(event.pid, {})
        for name, size in event.net_growth_bytes.items():
            if name in totals:
                totals[name].growth_bytes += size
            elif event.pid in self._rows:
                self._between[event.pid] = self._between.get(event.pid, 0) + size

    def between_phases_bytes(self, pid: int | None) -> int:
        """Net growth while no phase ran: with that of the phases it is the process's own."""
        return self._between.get(pid, 0) if pid is not None else 0

    def planned(self, pid: int | None) -> Planned:
        """As the last iteration said."""
        return self._planned.get(pid, Planned()) if pid is not None else Planned()

    def first_number(self, pid: int | None) -> int:
        """The number of the first iteration that was seen."""
        return self._first.get(pid, 0) if pid is not None else 0

    def add_label(self, snapshot: SnapshotEvent) -> None:
        """A snapshot with a name; of very many the first and the last are kept."""
        if len(self.labels) >= MAX_LABELS:
            del self.labels[MAX_LABELS // 2]
        size = snapshot.statement.rss_bytes
        self.labels.append(Labeled(snapshot.pid, snapshot.t, snapshot.label, size))

    def of(self, pid: int | None) -> list[Iteration]:
        """Reported iterations of a process, in order."""
        rows = self._rows.get(pid, {}) if pid is not None else {}
        return [row for row in rows.values() if row.rss_bytes]

    def phases(self, pid: int | None) -> list[PhaseTotal]:
        """Phases of a process, in the order in which they first came.

        A function that was found in the loop is a phase if it takes time or memory.
        """
        found = list(self._totals.get(pid, {}).values()) if pid is not None else []
        seconds = sum(total.seconds for total in found)
        return [total for total in found if not total.is_idle(seconds)]

    def growth(self, pid: int | None) -> float | None:
        """Bytes an iteration at the end, 0 where the level does not rise; None with too few."""
        rows = self.of(pid)
        if pid is None or len(rows) < _LEAST:
            return None
        last = rows[-1].index
        at, found = self._fits.get(pid, (0, None))
        if found is None or last >= _REFIT * at:
            # the first iteration pays for imports, allocations and warm-up
            rows = rows[1:] if len(rows) > _LEAST else rows
            points = [(float(row.generation), float(row.rss_bytes)) for row in rows]
            found = fit(points, quantum=float(MIB))
            self._fits[pid] = last, found
        return found.rate if found.is_rising_at_end else 0.0

    def _row(self, pid: int, generation: int, t: float) -> Iteration:
        if pid not in self._rows and len(self._rows) >= MAX_PROCESSES:
            return Iteration(generation, t)  # of one process too many: it is not kept
        rows = self._rows.setdefault(pid, {})
        if generation not in rows:
            index = next(reversed(rows.values())).index + 1 if rows else 0
            rows[generation] = Iteration(generation, t, index=index)
            if len(rows) > MAX_ITERATIONS:
                _thin(rows)
        return rows[generation]


def _thin(rows: dict[int, Iteration]) -> None:
    """Of what is not recent, every second, fourth, eighth one: spread over the whole run."""
    every = 1
    while len(rows) > (MAX_ITERATIONS + _RECENT) // 2:
        every *= 2
        for number, row in list(rows.items())[:-_RECENT]:
            if row.index % every:
                del rows[number]
