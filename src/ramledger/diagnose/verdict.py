"""Leak or not: the level that never comes back down, minus buffers that fill to a capacity.

Split first (this process, its children, /dev/shm), then judge each part: a robust slope over the
settled run that still holds at its end is a leak; anything else is named, not passed over.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from ramledger.diagnose.owner_growth import steady_growth
from ramledger.diagnose.responsibility import responsible_for
from ramledger.recording import Recording
from ramledger.run.ending import ending_of
from ramledger.run.model import Run
from ramledger.run.slopes import Slope, floor_of, onset_index, theil_sen
from ramledger.run.timeline import Point, Timeline, build_timeline
from ramledger.units import MIB, format_bytes

FEWEST_POINTS = 6
_MANY_POINTS = 20  # with as many, a trend that is not even likely is none
_LEAST_GROWTH_BYTES = 1.5 * MIB
_ENOUGH_SINCE = 8  # points after the onset that make a rate of their own
_LATE_WINDOW = 12  # a leak is to be found this many generations after its onset
_ROSE_BEFORE = 0.6  # of the rise that the rate since the onset would have made before it
_FILLING_ERROR = 0.2
_GROWING_ERROR = 0.35  # of buffers that allocate as they go
_STEP = 0.6  # of all growth in one step: a new level, not a leak
_LEAST_RATE_BYTES = 0.05 * MIB
_LATE_START = 6  # an inferred loop is known only after some turns
_LONG_ENOUGH_SECONDS = 30.0  # of a run without generations: imports are over by then
_IN_TIME = 0.75  # of the passes add as much to /dev/shm as usual
_MOST_ACCOUNTS = 20
_SAME_RATE = 0.4
_FEWEST_READINGS = 4
_TEARDOWN = 0.2  # of the points at most: workers and segments given back at the end


@dataclass(frozen=True, slots=True)
class Growth:
    """One level judged over the run."""

    is_leak: bool
    slope: Slope | None
    onset: int = 0  # index of the point where it begins
    more_points: int = 0  # how many more would decide, when it is not decided
    by_owner: bool = False  # seen in what one name holds: the level itself does not show it


def diagnose(recording: Recording, since: int | None = None) -> Diagnosis:
    """How a run ended, and the verdict on it from generation `since` on."""
    return replace(_judged(recording, since), ended=ending_of(Run.from_recording(recording)))


def _judged(recording: Recording, since: int | None) -> Diagnosis:
    """The verdict; of a cluster, on each process."""
    parts = by_worker(recording)
    if parts:
        return together(recording, [(worker, _judged(part, since)) for worker, part in parts])
    timeline = build_timeline(recording)
    if since is not None:
        timeline.points = [p for p in timeline.points if p.generation >= since]
        timeline.snapshots = [s for s in timeline.snapshots if (s.generation or 0) >= since]
    points = timeline.points
    fillings = find_fillings(timeline)
    findings = healthy_findings(timeline, fillings)
    if len(points) < FEWEST_POINTS:
        reason = f"only {len(points)} {_unit(timeline)}s were recorded"
        more = FEWEST_POINTS - len(points)
        return _diagnosis(
            timeline, Verdict.UNDECIDED, f"{reason}; {more} more would decide", findings, recording
        )
    leaks, undecided = _leaks(timeline, fillings)
    seconds = points[-1].t - points[0].t
    is_short = not timeline.by_generation and seconds < _LONG_ENOUGH_SECONDS
    if is_short and (leaks or not _has_settled(points)):
        reason = (
            f"no loop was seen in {seconds:.0f} s, and programs grow while they start: "
            f"{_LONG_ENOUGH_SECONDS:.0f} s, or phases, would decide"
        )
        return _diagnosis(timeline, Verdict.UNDECIDED, reason, findings, recording)
    if leaks:
        reason = leaks[0].summary
        findings = [f for f in findings if not _is_leaks_own(f, leaks, timeline)]
        return _diagnosis(timeline, Verdict.LEAK, reason, [*leaks, *findings], recording)
    if undecided and not any(finding.kind is Kind.SAWTOOTH for finding in findings):
        reason = (
            f"memory may be growing, but the noise is larger than the trend so far: about "
            f"{undecided} more {_unit(timeline)}s would decide"
        )
        return _diagnosis(timeline, Verdict.UNDECIDED, reason, findings, recording)
    reason = findings[0].summary if findings else "memory is flat after warm-up"
    return _diagnosis(timeline, Verdict.HEALTHY, reason, findings, recording)


def _is_leaks_own(finding: Finding, leaks: Sequence[Finding], timeline: Timeline) -> bool:
    """Whether what seems to be warm-up is the leak itself, which grows in steps."""
    points = timeline.points
    leaked = sum(leak.bytes_per_generation for leak in leaks) * len(points)
    return finding.kind is Kind.WARM_UP and leaked >= 0.5 * (points[-1].anon - points[0].anon)


def _has_settled(points: Sequence[Point]) -> bool:
    """Whether the last third adds next to nothing."""
    levels = [float(p.anon + p.children + p.shm) for p in points]
    last = floor_of(levels[-max(2, len(levels) // 3) :])
    return last[-1] - last[0] <= max(2 * MIB, 0.1 * (max(levels) - min(levels)))


def _diagnosis(
    timeline: Timeline,
    verdict: Verdict,
    reason: str,
    findings: Sequence[Finding],
    recording: Recording,
) -> Diagnosis:
    return Diagnosis(
        verdict,
        reason,
        len(timeline.points) if timeline.by_generation else 0,
        tuple(findings),
        recording.notes,
        {
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


def judge_level(xs: Sequence[float], ys: Sequence[float], tail_share: float = 0.4) -> Growth:
    """Whether a level leaks: rising over the settled part, and still rising at its end."""
    n = len(xs)
    start = min(max(1, n // 4), n - 4)
    settled_x, settled_y = xs[start:], ys[start:]
    slope = theil_sen(settled_x, settled_y)
    tail_n = max(4, round(tail_share * n))
    tail = theil_sen(xs[-tail_n:], ys[-tail_n:])
    if slope is None or tail is None:
        return Growth(False, slope)
    floor = floor_of(settled_y)
    gained = floor[-1] - floor[0]
    rise = slope.per_step * (settled_x[-1] - settled_x[0])
    enough = rise >= max(_LEAST_GROWTH_BYTES, 2 * slope.noise)
    goes_on = tail.per_step >= 0.35 * slope.per_step and 0.4 * rise <= gained <= 3 * rise
    goes_on = goes_on and largest_step(floor) < _STEP * gained
    if slope.is_rising and enough and goes_on and slope.per_step >= _LEAST_RATE_BYTES:
        return _since_onset(xs, ys, slope)
    late = _late_leak(xs, ys)
    if late is not None:
        return late
    likely = theil_sen(settled_x, settled_y, z=1.0)
    doubtful = (
        slope.per_step >= 4 * _LEAST_RATE_BYTES
        and tail.per_step > 0
        and gained > 0
        and not (slope.is_rising and not goes_on)
        and rise >= max(_LEAST_GROWTH_BYTES, 0.3 * slope.noise)
        and (n < _MANY_POINTS or (likely is not None and likely.low > 0))
    )
    if not doubtful:
        return Growth(False, slope)
    # the slope's standard error falls with n^1.5: this many points make it twice that
    needed = (48 * slope.noise**2 / max(slope.per_step, 1.0) ** 2) ** (1 / 3)
    return Growth(False, slope, more_points=max(2, min(200, round(needed) - n + 2)))


def _since_onset(xs: Sequence[float], ys: Sequence[float], slope: Slope) -> Growth:
    """A leak, its rate taken from where it begins."""
    onset = onset_index(xs, ys)
    since = theil_sen(xs[onset:], ys[onset:]) if len(xs) - onset >= _ENOUGH_SINCE else None
    if since is None or not since.is_rising:
        return Growth(True, slope, onset)
    # much the same rise before: noise, not an onset
    expected = since.per_step * (xs[onset] - xs[0])
    if onset and ys[onset] - ys[0] >= _ROSE_BEFORE * expected:
        return Growth(True, theil_sen(xs, ys) or since, 0)
    return Growth(True, since, onset)


def _late_leak(xs: Sequence[float], ys: Sequence[float]) -> Growth | None:
    """A leak that begins late in a long run: steady at the end, beyond every earlier level."""
    n = len(xs)
    start = n - max(_ENOUGH_SINCE, min(_LATE_WINDOW, n // 3))
    if start < _ENOUGH_SINCE:
        return None
    before, window = ys[:start], ys[start:]
    slope = theil_sen(xs[start:], window)
    floor = floor_of(window)
    gained = floor[-1] - floor[0]
    if slope is None or not slope.is_rising or slope.per_step < 4 * _LEAST_RATE_BYTES:
        return None
    rising = sum(b > a for a, b in pairwise(window)) >= 0.7 * (len(window) - 1)
    beyond = floor[-1] - max(before) >= 0.5 * gained
    steady = gained >= max(2 * _LEAST_GROWTH_BYTES, 6 * slope.noise)
    goes_on = window[-1] - window[len(window) // 2] >= 0.35 * (window[-1] - window[0])
    if rising and beyond and steady and goes_on and largest_step(floor) < 0.4 * gained:
        return _since_onset(xs, ys, slope)
    return None


def largest_step(floor: Sequence[float]) -> float:
    """The most that a level rises from one point to the next."""
    return max((b - a for a, b in pairwise(floor)), default=0.0)


def _leaks(timeline: Timeline, fillings: Sequence[Filling]) -> tuple[list[Finding], int]:
    points = timeline.points
    xs = _steps(timeline)
    leaks: list[Finding] = []
    undecided = 0
    # stretches of time begin with imports: only the end tells
    tail_share = 0.4 if timeline.by_generation else 0.25
    inside = judge_level(xs, unexplained_level(points, fillings), tail_share)
    if inside.is_leak and not _exceeds_error(timeline, fillings, inside):
        inside = Growth(False, inside.slope)
    if inside.is_leak and is_fragmentation_noise(points, fillings):
        inside = Growth(False, inside.slope)
    if not fillings:
        inside = _judged_by_allocators(timeline, inside) or inside
    if not inside.is_leak:
        inside = _judged_by_owners(timeline, fillings) or inside
    if inside.is_leak:
        leaks.append(_inside_leak(timeline, fillings, inside))
    undecided = max(undecided, inside.more_points)
    levels: dict[Where, list[float]] = {
        "children": [float(p.children) for p in points],
        "shm": [float(p.shm) for p in points],
    }
    for name, level in levels.items():
        kept = before_teardown(level)
        growth = (
            judge_level(xs[:kept], level[:kept]) if kept >= FEWEST_POINTS else Growth(False, None)
        )
        if growth.is_leak and (name != "shm" or keeps_time(_shm_rises(timeline, level[:kept]))):
            leaks.append(_outside_leak(timeline, name, growth, kept))
    leaks.sort(key=lambda finding: -finding.bytes_per_generation)
    return leaks, undecided


def keeps_time(rises: Sequence[float]) -> bool:
    """Whether a level rises with every generation, and by much the same.

    /dev/shm is the whole machine's: what another program leaves there has another rhythm.
    """
    settled = rises[len(rises) // 4 :]
    usual = median(settled) if settled else 0.0
    if usual <= 0:
        return False
    alike = sum(abs(rise - usual) <= 0.4 * usual for rise in settled)
    return alike >= _IN_TIME * len(settled)


def _shm_rises(timeline: Timeline, level: Sequence[float]) -> list[float]:
    """Growth of /dev/shm: by pass through the phase that grows most, else by three generations."""
    by_phase: dict[str, list[float]] = defaultdict(list)
    for phase in timeline.phases:
        by_phase[phase.name].append(phase.shm_bytes / phase.passes)
    rises = max(by_phase.values(), key=sum, default=[])
    if len(rises) >= FEWEST_POINTS and sum(rises) > 0:
        return rises
    return [b - a for a, b in pairwise(level[::3])]


def _exceeds_error(timeline: Timeline, fillings: Sequence[Filling], growth: Growth) -> bool:
    """Whether the rate exceeds the error of fillings, which are interpolated between snapshots."""
    steps = _steps(timeline)
    # fast generations are reported many at a time: a rate is by generation, a point is all of them
    apart = (steps[-1] - steps[0]) / max(1, len(steps) - 1)
    rate = growth.slope.per_step * max(1.0, apart) if growth.slope else 0.0
    fixed = [filling for filling in fillings if not filling.grows]
    growing = [filling for filling in fillings if filling.grows]
    error = _FILLING_ERROR * filled_per_point(timeline, fixed)
    return rate >= error + _GROWING_ERROR * filled_per_point(timeline, growing)


def _judged_by_allocators(timeline: Timeline, by_level: Growth) -> Growth | None:
    """What is allocated may leak while the allocator still has freed room to put it.

    Where both show it, what is allocated tells rate and onset better: it has no holes.
    """
    points = timeline.points
    known = [(p, p.in_use) for p in points if p.malloc_in_use is not None]
    if len(known) < max(_MANY_POINTS, 0.6 * len(points)):
        return None
    growth = judge_level([float(p.generation) for p, _ in known], [y for _, y in known])
    if not growth.is_leak or (by_level.is_leak and not _is_clearer(growth, by_level)):
        return None
    return replace(growth, onset=points.index(known[growth.onset][0]))


def _is_clearer(growth: Growth, other: Growth) -> bool:
    """Whether it is much the same rate, with half the noise."""
    mine, theirs = growth.slope, other.slope
    if mine is None or theirs is None:
        return False
    is_same = abs(mine.per_step - theirs.per_step) <= _SAME_RATE * theirs.per_step
    return is_same and mine.noise < 0.5 * theirs.noise


def _judged_by_owners(timeline: Timeline, fillings: Sequence[Filling]) -> Growth | None:
    """What one of the program's own names holds may grow under any noise of the level."""
    found = steady_growth(timeline, fillings)
    if found is None or _has_stopped(timeline.points, found[1].per_step):
        return None
    return Growth(True, found[1], by_owner=True)


def _has_stopped(points: Sequence[Point], rate: float) -> bool:
    """Whether what is in use is clearly flat in the end: snapshots are rare, and may miss that.

    The level alone, where malloc reports nothing, may be flat while holes are filled.
    """
    tail = points[-max(FEWEST_POINTS, len(points) // 3) :]
    known = [p for p in tail if p.malloc_in_use is not None]
    is_known = len(known) >= _FEWEST_READINGS
    pairs = [(p, p.in_use) for p in known] if is_known else [(p, float(p.anon)) for p in tail]
    slope = theil_sen([float(p.generation) for p, _ in pairs], [level for _, level in pairs])
    return slope is not None and slope.noise < rate and slope.high < 0.5 * rate


def before_teardown(level: Sequence[float]) -> int:
    """How many points lie before everything is given back at the very end."""
    n = len(level)
    peak = max(range(n), key=lambda i: level[i]) if n else 0
    fallen = level[peak] - level[-1] if n else 0.0
    rise = level[peak] - min(level) if n else 0.0
    is_teardown = fallen > 0.3 * rise and n - 1 - peak <= max(2, _TEARDOWN * n)
    return peak + 1 if is_teardown and fallen > _LEAST_GROWTH_BYTES else n


def _steps(timeline: Timeline) -> list[float]:
    return [float(p.generation) for p in timeline.points]


def _inside_leak(timeline: Timeline, fillings: Sequence[Filling], growth: Growth) -> Finding:
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
    total = last.anon - first.anon
    if filled <= 0 or total <= 0:
        return []
    names = ", ".join(f.path for f in fillings[:3])
    return [
        f"growth in all: {format_bytes(total)}, of which {format_bytes(min(filled, total))} is "
        f"filling ({names}) and {format_bytes(max(0, total - filled))} is not"
    ]


def _outside_leak(timeline: Timeline, where: Where, growth: Growth, kept: int) -> Finding:
    phase = outside_phase(timeline, where)
    end = timeline.points[kept - 1]
    if where == "shm":
        first, last = timeline.points[0].shm, end.shm
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
        first, last = timeline.points[0].children, end.children
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
    growth: Growth,
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
            f"level: {format_bytes(timeline.points[0].anon)} -> "
            f"{format_bytes(timeline.points[-1].anon)} over {len(timeline.points)} "
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
