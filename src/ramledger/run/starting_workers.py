"""Worker processes that are still starting: what they will hold once they are like the others.

Workers of one kind end up alike: the largest shows what the others become. Before the training
has begun, the largest may still import, and become what the process was that started it.
"""

from collections import defaultdict

from ramledger.event_parts import ProcessMemory
from ramledger.run.processes import Process, Processes

_LATELY_SECONDS = 10.0
_STILL_GROWS = 1.02  # times what they had then
_FEWEST = 2


def bytes_to_come(
    processes: Processes,
    main_pid: int | None,
    others: ProcessMemory | None,
    now: float,
    *,
    has_begun: bool,
) -> int:
    """What workers that still grow lack; `others` is the sum of those that are not listed."""
    groups: dict[tuple[int, str], list[Process]] = defaultdict(list)
    for row in processes.alive:
        if row.is_worker and row.pid != main_pid:
            groups[row.parent_pid, row.command].append(row)
    main = processes.rows.get(main_pid) if main_pid is not None and not has_begun else None
    kinds = [rows for rows in groups.values() if len(rows) >= _FEWEST]
    return sum(_lacking(rows, main, others, now) for rows in kinds)


def _lacking(
    rows: list[Process], main: Process | None, others: ProcessMemory | None, now: float
) -> int:
    listed = [row for row in rows if row.rss_bytes and now - row.seen_at < _LATELY_SECONDS]
    # starting takes turns where cores are few: together they grow, one alone may rest
    if not listed or not _grow(listed, now - _LATELY_SECONDS):
        return 0
    largest = max(listed, key=lambda row: row.memory.anon_bytes)
    full = largest.memory.anon_bytes
    if main is not None:
        full = max(full, min(main.memory.anon_bytes, _before(main, rows)))
    lacking = sum(max(0, full - row.memory.anon_bytes) for row in listed)
    if others is not None:
        lacking += max(0, (len(rows) - len(listed)) * full - others.anon_bytes)
    return lacking


def _before(main: Process, rows: list[Process]) -> int:
    """What the process had that started them, when they began."""
    began = min((row.series.points[0][0] for row in rows if len(row.series)), default=0.0)
    files = main.memory.file_bytes
    return max((size - files for t, size in main.series.points if t <= began), default=0)


def _grow(rows: list[Process], since: float) -> bool:
    before = sum(
        next((size for t, size in reversed(row.series.points) if t <= since), 0) for row in rows
    )
    return sum(row.rss_bytes for row in rows) > _STILL_GROWS * before
