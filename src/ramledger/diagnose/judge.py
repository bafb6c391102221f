"""Leak or not: the level that never comes back down, less what is filling by rights.

Split first (this process, its children, /dev/shm), then judge each part: a robust slope over the
settled run that still holds at its end is a leak; anything else is named, not passed over.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ramledger.diagnose.causes import Explanation, explain_leak
from ramledger.diagnose.filling import Filling, find_fillings, unexplained_level
from ramledger.diagnose.finding import Cause, Culprit, Diagnosis, Finding, Kind, Verdict
from ramledger.diagnose.healthy import healthy_findings
from ramledger.diagnose.timeline import PhaseGrowth, Point, Timeline, build_timeline
from ramledger.diagnose.trend import Slope, floor_of, onset_index, theil_sen
from ramledger.recording import Recording
from ramledger.units import MIB, format_bytes

FEWEST_POINTS = 6
_MANY_POINTS = 20  # with as many, a trend that is not even likely is none
_LEAST_GROWTH_BYTES = 1.5 * MIB
_STEP = 0.6  # of all growth in one step: a new level, not a leak
_LEAST_RATE_BYTES = 0.05 * MIB
_LATE_START = 6  # an inferred loop is known only after some turns
_TEARDOWN = 0.2  # of the points at most: workers and segments given back at the end


@dataclass(frozen=True, slots=True)
class Growth:
    """One level judged over the run."""

    is_leak: bool
    slope: Slope | None
    onset: int = 0  # index of the point where it begins
    more_points: int = 0  # how many more would decide, when it is not decided


def diagnose(recording: Recording, since: int | None = None) -> Diagnosis:
    """The verdict on a recording, from generation `since` on."""
    timeline = build_timeline(recording)
    if since is not None:
        timeline.points = [p for p in timeline.points if p.generation >= since]
        timeline.looks = [k for k in timeline.looks if (k.generation or 0) >= since]
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
    if leaks:
        reason = leaks[0].summary
        return _diagnosis(timeline, Verdict.LEAK, reason, [*leaks, *findings], recording)
    if undecided:
        reason = (
            f"memory may be growing, but the noise is larger than the trend so far: about "
            f"{undecided} more {_unit(timeline)}s would decide"
        )
        return _diagnosis(timeline, Verdict.UNDECIDED, reason, findings, recording)
    reason = findings[0].summary if findings else "memory is flat after warm-up"
    return _diagnosis(timeline, Verdict.HEALTHY, reason, findings, recording)


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
        {"unit": _unit(timeline), "points": len(timeline.points)},
    )


def judge_level(xs: Sequence[float], ys: Sequence[float]) -> Growth:
    """Whether a level leaks: rising over the settled part, and still rising at its end."""
    n = len(xs)
    start = min(max(1, n // 4), n - 4)
    settled_x, settled_y = xs[start:], ys[start:]
    slope = theil_sen(settled_x, settled_y)
    tail_n = max(4, round(0.4 * n))
    tail = theil_sen(xs[-tail_n:], ys[-tail_n:])
    if slope is None or tail is None:
        return Growth(False, slope)
    floor = floor_of(settled_y)
    gained = floor[-1] - floor[0]
    span = settled_x[-1] - settled_x[0]
    enough = slope.per_step * span >= max(_LEAST_GROWTH_BYTES, 2 * slope.noise)
    goes_on = tail.per_step >= 0.35 * slope.per_step and gained >= 0.4 * slope.per_step * span
    goes_on = goes_on and largest_step(floor) < _STEP * gained
    if slope.is_rising and enough and goes_on and slope.per_step >= _LEAST_RATE_BYTES:
        return Growth(True, slope, onset_index(xs, ys))
    likely = theil_sen(settled_x, settled_y, z=1.0)
    doubtful = (
        slope.per_step >= 4 * _LEAST_RATE_BYTES
        and tail.per_step > 0
        and gained > 0
        and not (slope.is_rising and not goes_on)
        and slope.per_step * span >= max(_LEAST_GROWTH_BYTES, 0.3 * slope.noise)
        and (n < _MANY_POINTS or (likely is not None and likely.low > 0))
    )
    if not doubtful:
        return Growth(False, slope)
    # the slope's standard error falls with n^1.5: this many points make it twice that
    needed = (48 * slope.noise**2 / max(slope.per_step, 1.0) ** 2) ** (1 / 3)
    return Growth(False, slope, more_points=max(2, min(200, round(needed) - n + 2)))


def largest_step(floor: Sequence[float]) -> float:
    """The most that a level rises from one point to the next."""
    return max((b - a for a, b in pairwise(floor)), default=0.0)


def _leaks(timeline: Timeline, fillings: Sequence[Filling]) -> tuple[list[Finding], int]:
    points = timeline.points
    xs = _steps(timeline)
    leaks: list[Finding] = []
    undecided = 0
    inside = judge_level(xs, unexplained_level(points, fillings))
    if inside.is_leak:
        leaks.append(_inside_leak(timeline, fillings, inside))
    undecided = max(undecided, inside.more_points)
    for name, level in (
        ("children", [float(p.children) for p in points]),
        ("shm", [float(p.shm) for p in points]),
    ):
        kept = before_teardown(level)
        growth = (
            judge_level(xs[:kept], level[:kept]) if kept >= FEWEST_POINTS else Growth(False, None)
        )
        if growth.is_leak:
            leaks.append(_outside_leak(timeline, name, growth, kept))
    leaks.sort(key=lambda finding: -finding.bytes_per_generation)
    return leaks, undecided


def before_teardown(level: Sequence[float]) -> int:
    """How many points lie before everything is given back at the very end."""
    n = len(level)
    peak = max(range(n), key=lambda i: level[i]) if n else 0
    fallen = level[peak] - level[-1] if n else 0.0
    rise = level[peak] - min(level) if n else 0.0
    is_teardown = fallen > 0.5 * rise and n - 1 - peak <= max(2, _TEARDOWN * n)
    return peak + 1 if is_teardown and fallen > _LEAST_GROWTH_BYTES else n


def _steps(timeline: Timeline) -> list[float]:
    return [float(p.generation) for p in timeline.points]


def _inside_leak(timeline: Timeline, fillings: Sequence[Filling], growth: Growth) -> Finding:
    found = explain_leak(timeline, fillings)
    phase = leaking_phase(timeline, fillings)
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


def _outside_leak(timeline: Timeline, where: str, growth: Growth, kept: int) -> Finding:
    phase = _outside_phase(timeline, 1 if where == "children" else 2)
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
    held = f", held by {found.culprit.path}" if found.culprit.path else ""
    if not timeline.by_generation:
        seconds = _seconds_per_step(timeline.points)
        scale = 60 / seconds if seconds else 1.0
        rate, low, high = (round(x * scale) for x in (slope.per_step, slope.low, slope.high))
        unit = "minute"
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
        ),
        advice=found.advice,
    )


def _onset_generation(timeline: Timeline, index: int) -> int:
    """A leak that is there in the first generations seen has been there from the first of all."""
    first = timeline.points[0].generation
    if index <= 1 and first <= _LATE_START:
        return 0
    return timeline.points[index].generation


def leaking_phase(timeline: Timeline, fillings: Sequence[Filling]) -> str:
    """The phase in which unexplained memory appears; a function where no phases are known."""
    by_phase: dict[str, list[float]] = defaultdict(list)
    settled = timeline.phases[len(timeline.phases) // 4 :]
    for phase in settled:
        by_phase[phase.name].append(phase.growth_bytes)
    growth = {name: sum(values) / max(1, len(values)) for name, values in by_phase.items()}
    if not growth:
        return _growing_function(timeline, fillings)
    filling_rate = _filling_rate(timeline, fillings)
    if filling_rate > 0:
        # the buffer fills in one phase: take its share out where it fits best
        into = min(growth, key=lambda name: abs(growth[name] - filling_rate))
        growth[into] -= filling_rate
    return max(growth, key=lambda name: growth[name])


def _outside_phase(timeline: Timeline, column: int) -> str:
    """The phase during which memory outside this process grows; '' where none is marked."""
    spans = phase_spans(timeline)
    growth: dict[str, int] = defaultdict(int)
    for before, after in pairwise(timeline.children):
        middle = (before[0] + after[0]) / 2
        at = bisect_right(spans, middle, key=lambda span: span[0]) - 1
        if at >= 0 and middle < spans[at][1]:
            growth[spans[at][2]] += int(after[column]) - int(before[column])
    grown = {name: size for name, size in growth.items() if size > 0}
    return max(grown, key=lambda name: grown[name]) if grown else ""


def phase_spans(timeline: Timeline) -> list[tuple[float, float, str]]:
    """(begin, end, name) of phases, laid one after the other up to each generation's end."""
    ends = {point.generation: point.t for point in timeline.points}
    by_generation: dict[int, list[PhaseGrowth]] = defaultdict(list)
    for phase in timeline.phases:
        by_generation[phase.generation].append(phase)
    spans = []
    for generation, phases in by_generation.items():
        if generation not in ends:
            continue
        at = ends[generation]
        for phase in reversed(phases):
            spans.append((at - phase.seconds, at, phase.name))
            at -= phase.seconds
    return sorted(spans)


def _filling_rate(timeline: Timeline, fillings: Sequence[Filling]) -> float:
    points = timeline.points[len(timeline.points) // 4 :]
    if len(points) < 2:
        return 0.0
    steps = max(1, len(points) - 1)
    return sum(f.at(points[-1].t) - f.at(points[0].t) for f in fillings) / steps


def _growing_function(timeline: Timeline, fillings: Sequence[Filling]) -> str:
    points = timeline.points
    begin = points[len(points) // 4].t if points else 0.0
    total: dict[str, float] = defaultdict(float)
    for t, growth in timeline.function_growth:
        if t >= begin:
            for name, size in growth.items():
                total[name] += size
    filled = sum(f.at(points[-1].t) - f.at(begin) for f in fillings) if points else 0.0
    if filled > 0 and total:
        total[min(total, key=lambda name: abs(total[name] - filled))] -= filled
    named = {name: size for name, size in total.items() if size > 0 and name != "?"}
    return max(named, key=lambda name: named[name]).partition(":")[2] if named else ""


def _seconds_per_step(points: Sequence[Point]) -> float:
    gaps = [b.t - a.t for a, b in pairwise(points)]
    return median(gaps) if gaps else 0.0


def _unit(timeline: Timeline) -> str:
    return "generation" if timeline.by_generation else "stretch"
