"""RSS from generation to generation and from phase to phase, in bounded memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_GENERATIONS = 96
MAX_PHASES = 40
MAX_LABELS = 60
MAX_PROCESSES = 64
_RECENT = 24  # generations that are never thinned out, and that the slope is taken from
_LEAST = 3  # generations before a slope is worth a word


@dataclass(frozen=True, slots=True)
class PhasePass:
    """One phase within one generation."""

    name: str
    after_bytes: int
    growth_bytes: int
    peak_bytes: int
    seconds: float
    count: int


@dataclass(slots=True)
class GenerationRow:
    """One generation of one process; RSS is 0 until its end is reported."""

    pid: int
    generation: int
    t: float
    seconds: float = 0.0
    rss_bytes: int = 0
    anon_bytes: int = 0
    count: int = 1
    origin: str = ""
    phases: dict[str, PhasePass] = field(default_factory=dict)


@dataclass(slots=True)
class PhaseTotal:
    """All passes through one phase of one process."""

    name: str
    count: int = 0
    seconds: float = 0.0
    growth_bytes: int = 0
    peak_bytes: int = 0
    generations: int = 0
    last_growth_bytes: int = 0

    @property
    def growth_per_generation(self) -> float:
        return self.growth_bytes / self.generations if self.generations else 0.0


@dataclass(frozen=True, slots=True)
class Labeled:
    """RSS at a snapshot that the user named."""

    pid: int
    t: float
    label: str
    rss_bytes: int


def whole(number: Any) -> int:
    """A whole number from an event; what no count of bytes can be is a ValueError."""
    found = int(number)
    if abs(found) >= 1 << 63:
        raise ValueError("not a number of bytes")
    return found


class Trend:
    """Generations, phases and labeled snapshots of all processes."""

    def __init__(self) -> None:
        self.labels: list[Labeled] = []
        self._rows: dict[int, dict[int, GenerationRow]] = {}
        self._totals: dict[int, dict[str, PhaseTotal]] = {}

    def add_phase(self, pid: int, t: float, event: Mapping[str, Any]) -> None:
        """A `phase` event."""
        before, after = whole(event["before_bytes"]), whole(event["after_bytes"])
        growth = event.get("growth_bytes")
        done = PhasePass(
            name=str(event["name"]),
            after_bytes=after,
            growth_bytes=after - before if growth is None else whole(growth),
            peak_bytes=whole(event.get("peak_bytes") or after),
            seconds=float(event.get("seconds") or 0.0),
            count=whole(event.get("count") or 1),
        )
        totals = self._totals.get(pid, {})
        if len(self._totals) >= MAX_PROCESSES and not totals:
            return
        if len(totals) >= MAX_PHASES and done.name not in totals:
            return
        self._totals[pid] = totals
        total = totals.setdefault(done.name, PhaseTotal(done.name))
        total.count += done.count
        total.seconds += done.seconds
        total.growth_bytes += done.growth_bytes
        total.peak_bytes = max(total.peak_bytes, done.peak_bytes)
        total.generations += 1
        total.last_growth_bytes = done.growth_bytes
        generation = event.get("generation")
        if generation is not None:
            self._row(pid, whole(generation), t).phases[done.name] = done

    def add_generation(self, pid: int, t: float, event: Mapping[str, Any]) -> None:
        """A `generation` event."""
        row = self._row(pid, whole(event["generation"]), t)
        row.t = t
        kinds = (event.get(f"{kind}_bytes", 0) for kind in ("anon", "file", "shmem"))
        row.rss_bytes = event.get("rss_bytes") or sum(kinds)
        row.anon_bytes = whole(event.get("anon_bytes") or 0)
        row.seconds = float(event.get("seconds") or 0.0)
        row.count = whole(event.get("count") or 1)
        row.origin = str(event.get("origin") or "")

    def add_label(self, pid: int, t: float, label: str, rss_bytes: int) -> None:
        """A snapshot with a name; of very many the first and the last are kept."""
        if len(self.labels) >= MAX_LABELS:
            del self.labels[MAX_LABELS // 2]
        self.labels.append(Labeled(pid, t, label, rss_bytes))

    def generations(self, pid: int | None) -> list[GenerationRow]:
        """Reported generations of a process, in order."""
        rows = self._rows.get(pid, {}) if pid is not None else {}
        return [row for row in rows.values() if row.rss_bytes]

    def phases(self, pid: int | None) -> list[PhaseTotal]:
        """Phases of a process, in the order in which they first came."""
        return list(self._totals.get(pid, {}).values()) if pid is not None else []

    def slope(self, pid: int | None) -> float | None:
        """Bytes a generation, of late: the median of the slopes between all pairs (Theil-Sen)."""
        rows = self.generations(pid)
        # the first generation pays for imports, allocations and warm-up
        rows = rows[1:][-_RECENT:] if len(rows) > _LEAST else rows[-_RECENT:]
        slopes = sorted(_slopes(rows))
        if len(rows) < _LEAST or not slopes:
            return None
        middle = len(slopes) // 2
        return slopes[middle] if len(slopes) % 2 else (slopes[middle - 1] + slopes[middle]) / 2

    def _row(self, pid: int, generation: int, t: float) -> GenerationRow:
        if pid not in self._rows and len(self._rows) >= MAX_PROCESSES:
            return GenerationRow(pid, generation, t)  # of one process too many: kept nowhere
        rows = self._rows.setdefault(pid, {})
        if generation not in rows:
            rows[generation] = GenerationRow(pid, generation, t)
            if len(rows) > MAX_GENERATIONS:
                old = list(rows)[1:-_RECENT]
                for number in old[::2]:
                    del rows[number]
        return rows[generation]


def _slopes(rows: list[GenerationRow]) -> Iterator[float]:
    for at, later in enumerate(rows):
        for earlier in rows[:at]:
            if later.generation != earlier.generation:
                apart = later.generation - earlier.generation
                yield (later.rss_bytes - earlier.rss_bytes) / apart
