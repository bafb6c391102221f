"""Memory over time for the page: few enough points for a browser, each one a real measurement.

Of every stretch of time the highest sample is kept whole, with the least and the most of all of
them: sums stay exact to the byte, and no peak is lost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ramledger.recording import Event
from ramledger.run.state import RunState

MAX_POINTS = 1200
MAX_PROCESSES = 200
MAX_CELLS = 250_000  # numbers of all processes together


@dataclass(frozen=True, slots=True)
class Instant:
    """One sample: the tree with shared pages once, and what each process held."""

    t: float
    level_bytes: int
    low_bytes: int
    high_bytes: int
    resident: dict[int, int]
    others_bytes: int


class SeriesBuilder:
    """Collects samples while a state takes in the events of a run, in bounded memory."""

    def __init__(self, begin: float = 0.0, end: float = float("inf")) -> None:
        self._begin, self._end = begin, end
        self._kept: list[Instant] = []
        self._gap_seconds = 0.0
        self._stretch_begin = 0.0  # of the last one kept, whose own time may be later
        self._most = 4 * MAX_POINTS  # thinned again at the end, when the length is known

    def saw(self, event: Event, state: RunState) -> None:
        """Take a sample in; `state` has applied it without complaint."""
        if not self._begin <= state.now_seconds <= self._end:
            return
        instant = _instant(event, state)
        if self._kept and instant.t - self._stretch_begin < self._gap_seconds:
            self._kept[-1] = _merged(self._kept[-1], instant)
            return
        self._stretch_begin = instant.t
        self._kept.append(instant)
        if len(self._kept) > self._most:
            span = self._kept[-1].t - self._kept[0].t
            self._gap_seconds = 2 * span / self._most
            self._kept = _thinned(self._kept, self._gap_seconds)

    def instants(self, most: int = MAX_POINTS) -> list[Instant]:
        """At most `most` instants, spread over the run."""
        if len(self._kept) <= most:
            return list(self._kept)
        span = self._kept[-1].t - self._kept[0].t
        return _thinned(self._kept, span / (most - 1))


def _instant(event: Event, state: RunState) -> Instant:
    rows = event["processes"]
    resident = {int(pid): sum(map(int, numbers[:3])) for pid, numbers in rows.items()}
    total = sum(resident.values()) + state.others_bytes
    level = state.tree.last
    twice = total - level  # pages that several processes share
    low = int(event.get("low") or total) - twice
    high = int(event.get("high") or total) - twice
    return Instant(
        round(state.now_seconds, 3),
        level,
        max(0, min(low, level)),
        max(high, level),
        resident,
        state.others_bytes,
    )


def _merged(one: Instant, other: Instant) -> Instant:
    kept = max((one, other), key=lambda instant: instant.level_bytes)
    return Instant(
        kept.t,
        kept.level_bytes,
        min(one.low_bytes, other.low_bytes),
        max(one.high_bytes, other.high_bytes),
        kept.resident,
        kept.others_bytes,
    )


def _thinned(instants: Sequence[Instant], gap_seconds: float) -> list[Instant]:
    """One instant a stretch; the last one of all is always itself."""
    if not instants:
        return []
    begin = instants[0].t
    stretches: dict[int, Instant] = {}
    for instant in instants[:-1]:
        at = int((instant.t - begin) / gap_seconds) if gap_seconds > 0 else 0
        stretches[at] = _merged(stretches[at], instant) if at in stretches else instant
    return sorted([*stretches.values(), instants[-1]], key=lambda instant: instant.t)


def series_document(instants: Sequence[Instant], main_pid: int | None) -> dict[str, Any]:
    """The series as JSON: columns of numbers, bytes throughout."""
    pids = _largest(instants)
    step = 1 + len(pids) * len(instants) // MAX_CELLS
    return {
        "t": [i.t for i in instants],
        "level": [i.level_bytes for i in instants],
        "low": [i.low_bytes for i in instants],
        "high": [i.high_bytes for i in instants],
        "main": [i.resident.get(main_pid or -1, 0) for i in instants],
        "step": step,  # of the columns below: every so many instants
        "processes": {str(pid): _column(instants[::step], pid) for pid in pids},
        "left_out": len({pid for i in instants for pid in i.resident}) - len(pids),
    }


def _largest(instants: Iterable[Instant]) -> list[int]:
    peaks: dict[int, int] = {}
    for instant in instants:
        for pid, size in instant.resident.items():
            peaks[pid] = max(peaks.get(pid, 0), size)
    return sorted(peaks, key=lambda pid: (-peaks[pid], pid))[:MAX_PROCESSES]


def _column(instants: Sequence[Instant], pid: int) -> dict[str, Any]:
    """From the first instant to the last at which the process was there."""
    there = [at for at, instant in enumerate(instants) if pid in instant.resident]
    if not there:
        return {"from": 0, "bytes": []}
    sizes = [instants[at].resident.get(pid, 0) for at in range(there[0], there[-1] + 1)]
    return {"from": there[0], "bytes": sizes}
