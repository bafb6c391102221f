"""Leak or not: the level that never comes back down, minus buffers that fill to a capacity.

Split first (this process, its children, /dev/shm), then judge each part: a robust slope over the
settled run that still holds at its end is a leak; anything else is named, not passed over.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

from ramledger.diagnose.allocator_growth import is_fragmentation_noise
from ramledger.diagnose.causes import explain_leak
from ramledger.diagnose.cluster_verdicts import by_worker, together
from ramledger.diagnose.explanation import Explanation
from ramledger.diagnose.filling import Filling, find_fillings, live_snapshots, unexplained_level
from ramledger.diagnose.finding import Cause, Culprit, Diagnosis, Finding, Kind, Verdict
from ramledger.diagnose.growth_places import (
    Where,
    adding_phase,
    filled_per_point,
    leaking_phase,
    outside_phase,
    phase_of_lines,
)
from ramledger.diagnose.healthy_growth import healthy_findings
from ramledger.diagnose.known_versions import known_in
from ramledger.diagnose.level_growth import (
    MANY_POINTS,
    LevelGrowth,
    before_teardown,
    is_regular,
    judge_level,
)
from ramledger.diagnose.owner_growth import steady_growth
from ramledger.diagnose.responsibility import responsible_for
from ramledger.run.ending import ending_of
from ramledger.run.model import Run
from ramledger.run.slopes import floor_of, theil_sen
from ramledger.run.timeline import Events, Point, Timeline, build_timeline
from ramledger.units import MIB, format_bytes

FEWEST_POINTS = 6
_FILLING_ERROR = 0.2
_GROWING_ERROR = 0.35  # of buffers that allocate as they go
_LATE_START = 6  # an inferred loop is known only after some generations
_LONG_ENOUGH_SECONDS = 30.0  # of a run without generations: imports are over by then
_MOST_ACCOUNTS = 20
_SAME_RATE = 0.4
_WORTH_SHARE = 0.01  # of the memory: growth below that has no cause unless something names it
_FEWEST_READINGS = 4


def diagnose(run: Run, since: int | None = None) -> Diagnosis:
    """How a run ended, and the verdict on it from generation `since` on."""
    found = _judged(run, since)
    return replace(found, notes=(*run.damage, *found.notes), ended=ending_of(run))


def _judged(events: Events, since: int | None) -> Diagnosis:
    """The verdict; of a cluster, on each process."""
    workers = by_worker(events)
    if workers:
        return together(events, [(worker, _judged(own, since)) for worker, own in workers])
    timeline = build_timeline(events)
    if since is not None:
        timeline.points = [p for p in timeline.points if p.generation >= since]
        timeline.snapshots = [s for s in timeline.snapshots if (s.generation or 0) >= since]
    points = timeline.points
    fillings = find_fillings(timeline)
    findings = healthy_findings(timeline, fillings)
    if len(points) < FEWEST_POINTS:
        reason = f"only {len(points)} {_unit(timeline)}s were recorded"
        more = FEWEST_POINTS - len(points)
        reason = f"{reason}; {more} more would decide"
        return _diagnosis(timeline, Verdict.UNDECIDED, reason, findings)
    leaks, undecided = _leaks(timeline, fillings)
    seconds = points[-1].t - points[0].t
    is_short = not timeline.by_generation and seconds < _LONG_ENOUGH_SECONDS
    if is_short and (leaks or not _has_settled(points)):
        reason = (
            f"no loop was seen in {seconds:.0f} s, and programs grow while they start: "
            f"{_LONG_ENOUGH_SECONDS:.0f} s, or phases, would decide"
        )
        return _diagnosis(timeline, Verdict.UNDECIDED, reason, findings)
    if leaks:
        reason = leaks[0].summary
        findings = [f for f in findings if not _is_leaks_own(f, leaks, timeline)]
        return _diagnosis(timeline, Verdict.LEAK, reason, [*leaks, *findings])
    if undecided and not any(finding.kind is Kind.SAWTOOTH for finding in findings):
        reason = (
            f"memory may be growing, but what was recorded so far does not show it clearly: about "
            f"{undecided} more {_unit(timeline)}s would decide"
        )
        return _diagnosis(timeline, Verdict.UNDECIDED, reason, findings)
    reason = findings[0].summary if findings else "memory is flat after warm-up"
    return _diagnosis(timeline, Verdict.HEALTHY, reason, findings)


def _is_leaks_own(finding: Finding, leaks: Sequence[Finding], timeline: Timeline) -> bool:
    """Whether what seems to be warm-up is the leak itself, which grows in steps."""
    points = timeline.points
    leaked = sum(leak.bytes_per_generation for leak in leaks) * len(points)
    return finding.kind is Kind.WARM_UP and leaked >= 0.5 * (
        points[-1].anon_bytes - points[0].anon_bytes
    )


def _has_settled(points: Sequence[Point]) -> bool:
    """Whether the last third adds next to nothing."""
    levels = [float(p.anon_bytes + p.children_bytes + p.shm_bytes) for p in points]
    last = floor_of(levels[-max(2, len(levels) // 3) :])
    return last[-1] - last[0] <= max(2 * MIB, 0.1 * (max(levels) - min(levels)))


def _diagnosis(
    timeline: Timeline,
    verdict: Verdict,
    reason: str,
    findings: Sequence[Finding],
) -> Diagnosis:
    return Diagnosis(
        verdict,
        reason,
        len(timeline.points) if timeline.by_generation else 0,
        tuple(findings),
        facts={
            "unit": _unit(timeline),
            "points": len(timeline.points),
            "versions": dict(timeline.versions),
            "accounts": _accounts(timeline),
        },
    )


def _accounts(timeline: Timeline) -> list[dict[str, Any]]:
    """Accounts in the first and in the last snapshot of the running program."""
    snapshots = live_snapshots(timeline)
    if not snapshots:
        return []
    early, late = snapshots[0], snapshots[-1]
    names = {**late.entries, **early.entries}
    rows: list[dict[str, Any]] = [
        {
            "account": name,
            "early_bytes": early.resident(name),
            "late_bytes": late.resident(name),
        }
        for name in names
    ]
    rows.sort(key=lambda row: (-abs(row["late_bytes"] - row["early_bytes"]), -row["late_bytes"]))
    return rows[:_MOST_ACCOUNTS]


def _leaks(timeline: Timeline, fillings: Sequence[Filling]) -> tuple[list[Finding], int]:
    points = timeline.points
    xs = _steps(timeline)
    leaks: list[Finding] = []
    undecided = 0
    # stretches of time begin with imports: only the end counts
    tail_share = 0.4 if timeline.by_generation else 0.25
    inside = judge_level(xs, unexplained_level(points, fillings), tail_share)
    if inside.is_leak and not _exceeds_error(timeline, fillings, inside):
        inside = LevelGrowth(False, inside.slope)
    if inside.is_leak and is_fragmentation_noise(points, fillings):
        inside = LevelGrowth(False, inside.slope)
    if not fillings:
        inside = _judged_by_allocators(timeline, inside) or inside
    if not inside.is_leak:
        inside = _judged_by_owners(timeline, fillings) or inside
    if inside.is_leak:
        found = _inside_leak(timeline, fillings, inside)
        # with one snapshot nothing tells it from a buffer that fills
        is_blind = len(live_snapshots(timeline)) + len(timeline.names_snapshots) == 1
        if found.cause is Cause.UNKNOWN and (is_blind or _is_late_and_little(points, inside)):
            undecided = len(points) - inside.onset  # as many again
        else:
            leaks.append(found)
    undecided = max(undecided, inside.more_points)
    levels: dict[Where, list[float]] = {
        "children": [float(p.children_bytes) for p in points],
        "shm": [float(p.shm_bytes) for p in points],
    }
    for name, level in levels.items():
        kept = before_teardown(level)
        growth = (
            judge_level(xs[:kept], level[:kept])
            if kept >= FEWEST_POINTS
            else LevelGrowth(False, None)
        )
        if growth.is_leak and (name != "shm" or is_regular(_shm_rises(timeline, level[:kept]))):
            leaks.append(_outside_leak(timeline, name, growth, kept))
    leaks.sort(key=lambda finding: -finding.bytes_per_generation)
    return leaks, undecided


def _is_late_and_little(points: Sequence[Point], growth: LevelGrowth) -> bool:
    """Whether it began in the second half, and grew no more than a level does by itself."""
    if growth.slope is None or growth.onset < len(points) // 2:
        return False
    grown = growth.slope.per_step * (points[-1].generation - points[growth.onset].generation)
    return grown < _WORTH_SHARE * points[-1].anon_bytes


def _shm_rises(timeline: Timeline, level: Sequence[float]) -> list[float]:
    """Growth of /dev/shm: by pass through the phase that grows most, else by three generations."""
    by_phase: dict[str, list[float]] = defaultdict(list)
    for phase in timeline.phases:
        by_phase[phase.name].append(phase.shm_growth_bytes / phase.passes)
    rises = max(by_phase.values(), key=sum, default=[])
    if len(rises) >= FEWEST_POINTS and sum(rises) > 0:
        return rises
    return [b - a for a, b in pairwise(level[::3])]


def _exceeds_error(timeline: Timeline, fillings: Sequence[Filling], growth: LevelGrowth) -> bool:
    """Whether the rate exceeds the error of fillings, which are interpolated between snapshots."""
    steps = _steps(timeline)
    # fast generations are reported many at a time: a rate is by generation, a point is all of them
    apart = (steps[-1] - steps[0]) / max(1, len(steps) - 1)
    rate = growth.slope.per_step * max(1.0, apart) if growth.slope else 0.0
    fixed = [filling for filling in fillings if not filling.grows]
    growing = [filling for filling in fillings if filling.grows]
    error = _FILLING_ERROR * filled_per_point(timeline, fixed)
    return rate >= error + _GROWING_ERROR * filled_per_point(timeline, growing)


def _judged_by_allocators(timeline: Timeline, by_level: LevelGrowth) -> LevelGrowth | None:
    """What is allocated may leak while the allocator still has freed room to put it.

    Where both show it, rate and onset are taken from what is allocated: it has no holes.
    """
    points = timeline.points
    known = [(p, p.in_use_bytes) for p in points if p.malloc_in_use_bytes is not None]
    if len(known) < max(MANY_POINTS, 0.6 * len(points)):
        return None
    growth = judge_level([float(p.generation) for p, _ in known], [y for _, y in known])
    if not growth.is_leak or (by_level.is_leak and not _is_clearer(growth, by_level)):
        return None
    return replace(growth, onset=points.index(known[growth.onset][0]))


def _is_clearer(growth: LevelGrowth, other: LevelGrowth) -> bool:
    """Whether it is much the same rate, with half the noise."""
    mine, theirs = growth.slope, other.slope
    if mine is None or theirs is None:
        return False
    is_same = abs(mine.per_step - theirs.per_step) <= _SAME_RATE * theirs.per_step
    return is_same and mine.noise < 0.5 * theirs.noise


def _judged_by_owners(timeline: Timeline, fillings: Sequence[Filling]) -> LevelGrowth | None:
    """What one of the program's own names holds may grow under any noise of the level."""
    found = steady_growth(timeline, fillings)
    if found is None or _has_stopped(timeline.points, found[1].per_step):
        return None
    return LevelGrowth(True, found[1])


def _has_stopped(points: Sequence[Point], rate: float) -> bool:
    """Whether what is in use is clearly flat in the end: snapshots are rare, and may miss that.

    The level alone, where malloc reports nothing, may be flat while holes are filled.
    """
    tail = points[-max(FEWEST_POINTS, len(points) // 3) :]
    known = [p for p in tail if p.malloc_in_use_bytes is not None]
    is_known = len(known) >= _FEWEST_READINGS
    pairs = (
        [(p, p.in_use_bytes) for p in known]
        if is_known
        else [(p, float(p.anon_bytes)) for p in tail]
    )
    slope = theil_sen([float(p.generation) for p, _ in pairs], [level for _, level in pairs])
    return slope is not None and slope.noise < rate and slope.high < 0.5 * rate


def _steps(timeline: Timeline) -> list[float]:
    return [float(p.generation) for p in timeline.points]


def _inside_leak(timeline: Timeline, fillings: Sequence[Filling], growth: LevelGrowth) -> Finding:
    found = explain_leak(timeline, fillings)
    adding, added = adding_phase(timeline, found.culprit.path)
    phase = adding or phase_of_lines(timeline, found.added_in) or leaking_phase(timeline, fillings)
    if adding:
        line = f"{adding} added {added} elements to it while they were counted"
        found = replace(found, evidence=(*found.evidence, line))
    return _leak(timeline, growth, found, phase, _split(timeline, fillings))


def _split(timeline: Timeline, fillings: Sequence[Filling]) -> list[str]:
    """How much of the growth is filling, where some of it is."""
    first, last = timeline.points[0], timeline.points[-1]
    filled = round(sum(f.at(last.t) - f.at(first.t) for f in fillings))
    total = last.anon_bytes - first.anon_bytes
    if filled <= 0 or total <= 0:
        return []
    names = ", ".join(f.path for f in fillings[:3])
    return [
        f"growth in all: {format_bytes(total)}, of which {format_bytes(min(filled, total))} is "
        f"filling ({names}) and {format_bytes(max(0, total - filled))} is not"
    ]


def _outside_leak(timeline: Timeline, where: Where, growth: LevelGrowth, kept: int) -> Finding:
    phase = outside_phase(timeline, where)
    end = timeline.points[kept - 1]
    if where == "shm":
        first, last = timeline.points[0].shm_bytes, end.shm_bytes
        found = Explanation(
            Cause.OUTSIDE_PROCESS,
            Culprit("shared memory", "/dev/shm"),
            (f"/dev/shm: {format_bytes(first)} -> {format_bytes(last)}",),
            "shared memory segments are never unlinked: call unlink() (and close()) on each "
            "multiprocessing.shared_memory.SharedMemory; `ls /dev/shm` shows them",
            0.85,
        )
    else:
        counts = [n for t, n in timeline.worker_counts if t <= end.t]
        first, last = timeline.points[0].children_bytes, end.children_bytes
        found = Explanation(
            Cause.OUTSIDE_PROCESS,
            Culprit("child process", "children"),
            (
                f"other processes of the run: {format_bytes(first)} -> {format_bytes(last)}",
                f"their number: {counts[0] if counts else 0} -> {counts[-1] if counts else 0}",
            ),
            "worker processes grow or are never closed: close() vector environments, and look at "
            "one worker with `ramledger explain PID --inside`",
            0.75,
        )
    return _leak(timeline, growth, found, phase)


def _leak(
    timeline: Timeline,
    growth: LevelGrowth,
    found: Explanation,
    phase: str,
    split: Sequence[str] = (),
) -> Finding:
    slope = growth.slope
    assert slope is not None
    rate, low, high = round(slope.per_step), round(slope.low), round(slope.high)
    onset = _onset_generation(timeline, growth.onset) if timeline.by_generation else None
    unit = _unit(timeline)
    where = f" in {phase}" if phase else ""
    since = f" since generation {onset}" if onset is not None else ""
    what = found.culprit.type or "memory"
    relation = found.culprit.relation
    held = f", {relation} {found.culprit.path}" if relation else ""
    if not timeline.by_generation:
        seconds = _seconds_per_step(timeline.points)
        scale = 60 / seconds if seconds else 1.0
        rate, low, high = (round(x * scale) for x in (slope.per_step, slope.low, slope.high))
        unit = "minute"
    fault, why = _responsible(timeline, found, phase)
    known = known_in(timeline.versions, str(found.cause))
    return Finding(
        Kind.LEAK,
        f"leak: {format_bytes(rate)} a {unit}{where}{since}: {what}{held} ({found.cause})",
        phase=phase,
        cause=found.cause,
        culprit=found.culprit,
        bytes_per_generation=rate,
        interval_bytes=(low, high),
        onset_generation=onset,
        confidence=found.confidence,
        evidence=(
            f"level: {format_bytes(timeline.points[0].anon_bytes)} -> "
            f"{format_bytes(timeline.points[-1].anon_bytes)} over {len(timeline.points)} "
            f"{_unit(timeline)}s",
            *split,
            *found.evidence,
            *([f"whose: {fault}: {why}"] if fault else []),
            *known,
        ),
        advice="; ".join([f"upgrade first: {known[0]}", found.advice] if known else [found.advice]),
        fault=fault,
        per=unit,
    )


def _responsible(timeline: Timeline, found: Explanation, phase: str) -> tuple[str, str]:
    snapshots = timeline.snapshots
    classes = {name for snapshot in snapshots for name in snapshot.user_classes}
    accounts = snapshots[-1].entries if snapshots else ()
    return responsible_for(found.cause, found.culprit, phase, classes, accounts)


def _onset_generation(timeline: Timeline, index: int) -> int:
    """A leak that is there in the first generations seen has been there from the first of all."""
    first = timeline.points[0].generation
    if index <= 1 and first <= _LATE_START:
        return 0
    return timeline.points[index].generation


def _seconds_per_step(points: Sequence[Point]) -> float:
    gaps = [b.t - a.t for a, b in pairwise(points)]
    return median(gaps) if gaps else 0.0


def _unit(timeline: Timeline) -> str:
    return "generation" if timeline.by_generation else "period"
