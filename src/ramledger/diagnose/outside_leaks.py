"""Leaks outside of the process that trains: in its workers, and in /dev/shm."""

from dataclasses import dataclass, replace

from ramledger.diagnose import thresholds
from ramledger.diagnose.causes import explain_leak
from ramledger.diagnose.finding import Cause, Culprit, Explanation
from ramledger.diagnose.growth_table import GrowthTable, leak_inside
from ramledger.run.shapes import Fit
from ramledger.run.timeline import Timeline
from ramledger.units import format_bytes


@dataclass(frozen=True, slots=True)
class OutsideLeak:
    """Why it grows, and the series of the process that shows it."""

    found: Explanation
    seen_in: Timeline


def leak_in_shm(table: GrowthTable) -> OutsideLeak:
    points = table.timeline.points
    sizes = f"{format_bytes(points[0].shm_bytes)} -> {format_bytes(points[-1].shm_bytes)}"
    found = Explanation(
        Cause.OUTSIDE_PROCESS,
        Culprit("shared memory", "/dev/shm"),
        (f"/dev/shm: {sizes}",),
        "shared memory segments are never unlinked: call unlink() (and close()) on each "
        "multiprocessing.shared_memory.SharedMemory; `ls /dev/shm` shows them",
    )
    return OutsideLeak(found, table.timeline)


def leak_in_workers(table: GrowthTable) -> OutsideLeak:
    """What a worker that leaks was seen to hold; else that its memory, or their number, grows."""
    timeline = table.timeline
    leaking = [(one, growth) for one in table.workers if (growth := _leak_of(one)) is not None]
    for worker, growth in leaking:
        found = explain_leak(worker, growth.onset if growth.onset is not None else growth.start)
        if found.cause is not Cause.UNKNOWN and not found.is_guess:
            others = f" and {len(leaking) - 1} more" if len(leaking) > 1 else ""
            where = f"in worker process {worker.timeline.main_pid}{others}"
            evidence = (where, *_levels(timeline), *found.evidence)
            return OutsideLeak(replace(found, evidence=evidence), worker.timeline)
    found = Explanation(
        Cause.OUTSIDE_PROCESS,
        Culprit("child process", "children"),
        _levels(timeline),
        "worker processes grow or are never closed: close() vector environments, and look at "
        "one worker with `ramledger explain PID --inside`",
    )
    return OutsideLeak(found, timeline)


def _leak_of(worker: GrowthTable) -> Fit | None:
    return leak_inside(worker) if worker.snapshots else None


def _levels(timeline: Timeline) -> tuple[str, str]:
    first, end = timeline.points[0], timeline.points[-1]
    counts = [n for t, n in timeline.worker_counts if t <= end.t] or [0]
    sizes = f"{format_bytes(first.children_bytes)} -> {format_bytes(end.children_bytes)}"
    return f"other processes of the run: {sizes}", f"their number: {counts[0]} -> {counts[-1]}"


def cannot_be_looked_into(table: GrowthTable) -> GrowthTable | None:
    """The process that grows and has no agent, if most of the growth is in such ones.

    Nothing says where that ends; a number of processes that grows is another thing.
    """
    points = table.timeline.points
    total = points[-1].children_bytes - points[0].children_bytes
    closed = [(one, max(0, _grown(one))) for one in table.workers if not one.timeline.has_agent]
    if not closed or sum(size for _, size in closed) < thresholds.MOST * total:
        return None
    return max(closed, key=lambda pair: pair[1])[0]


def _grown(worker: GrowthTable) -> int:
    points = worker.timeline.points
    return points[-1].anon_bytes - points[0].anon_bytes
