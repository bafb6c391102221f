"""Memory over time for the page: few enough points for a browser, each one a real measurement.

Of every stretch of time the highest sample is kept whole, with the least and the most of all of
them: sums stay exact to the byte, and no peak is lost.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ramledger.run.history import Instant, merged

MAX_POINTS = 1200
MAX_PROCESSES = 200
MAX_CELLS = 60_000  # numbers of all processes together


def thinned(instants: Sequence[Instant], most: int = MAX_POINTS) -> list[Instant]:
    """At most `most` instants, spread over the run; the last one is kept as it is."""
    if len(instants) <= most:
        return list(instants)
    begin, span = instants[0].t, instants[-1].t - instants[0].t
    gap_seconds = span / (most - 1)
    stretches: dict[int, Instant] = {}
    for instant in instants[:-1]:
        at = int((instant.t - begin) / gap_seconds) if gap_seconds > 0 else 0
        stretches[at] = merged(stretches[at], instant) if at in stretches else instant
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
        "main": [i.resident_bytes(main_pid or -1) for i in instants],
        "step": step,  # of the columns below: every so many instants
        "processes": {str(pid): _column(instants[::step], pid) for pid in pids},
        "left_out": len({pid for i in instants for pid in i.sample.processes}) - len(pids),
    }


def _largest(instants: Iterable[Instant]) -> list[int]:
    peaks: dict[int, int] = {}
    for instant in instants:
        for pid, memory in instant.sample.processes.items():
            peaks[pid] = max(peaks.get(pid, 0), memory.resident_bytes)
    return sorted(peaks, key=lambda pid: (-peaks[pid], pid))[:MAX_PROCESSES]


def _column(instants: Sequence[Instant], pid: int) -> dict[str, Any]:
    """From the first instant at which the process existed to the last."""
    there = [at for at, instant in enumerate(instants) if pid in instant.sample.processes]
    if not there:
        return {"from": 0, "bytes": []}
    sizes = [instants[at].resident_bytes(pid) for at in range(there[0], there[-1] + 1)]
    return {"from": there[0], "bytes": sizes}
