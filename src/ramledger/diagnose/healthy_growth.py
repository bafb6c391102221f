"""Growth that is no leak, named: filling, warm-up, spikes, shifts, file pages, and waste."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from ramledger.diagnose.advice import (
    float_images,
    repeated_observations,
    wide_floats,
    worth_bytes,
)
from ramledger.diagnose.filling import OWNERS, Filling, live_snapshots
from ramledger.diagnose.finding import Culprit, Finding, Kind
from ramledger.diagnose.growth_places import phase_spans
from ramledger.run.slopes import is_saturating
from ramledger.run.timeline import Point, Timeline
from ramledger.units import MIB, format_bytes

_WORTH_BYTES = 8 * MIB
_MOST_STEPS = 3
_MOST_SPIKES = 8
_MOST_SAMPLED = 100  # the largest ones get the name of their phase


def healthy_findings(timeline: Timeline, fillings: Sequence[Filling]) -> list[Finding]:
    """Everything worth a sentence that is not a leak."""
    findings = [_filling(filling, timeline) for filling in fillings]
    steps = _steps(timeline.points, timeline.by_generation)
    findings += steps or _saturating(timeline, fillings)
    findings += _spikes(timeline)
    findings += _sawtooth(timeline)
    findings += _file_pages(timeline.points)
    findings += [*_waste(timeline), *_never_filled(timeline)]
    return findings


def _filling(filling: Filling, timeline: Timeline) -> Finding:
    final = format_bytes(filling.final_bytes)
    now = filling.at(timeline.points[-1].t) if timeline.points else filling.resident[-1]
    is_full = filling.is_full or now >= 0.995 * filling.final_bytes
    if is_full:
        summary = f"not a leak: {filling.path} is full at {format_bytes(round(now))}"
    else:
        left = _generations_left(filling, timeline)
        when = f" in about {left} generations" if left else ""
        summary = (
            f"not a leak: {filling.path} is {filling.fill:.0%} full, it plateaus at {final}{when}"
        )
    return Finding(
        Kind.FILLING,
        summary,
        culprit=Culprit("buffer", filling.path),
        confidence=0.9,
        evidence=(
            f"{filling.account}: {format_bytes(filling.resident[0])} -> "
            f"{format_bytes(filling.resident[-1])} of {final}",
        ),
        advice="" if is_full else f"plan for {final}, or lower its capacity",
    )


def _generations_left(filling: Filling, timeline: Timeline) -> int | None:
    snapshots = live_snapshots(timeline)
    steps = timeline.generation_at(snapshots[-1].t) - timeline.generation_at(snapshots[0].t)
    if steps <= 0 or filling.growth_bytes <= 0:
        return None
    rate = filling.growth_bytes / steps
    return max(1, round((filling.final_bytes - filling.resident[-1]) / rate))


def _steps(points: Sequence[Point], by_generation: bool) -> list[Finding]:
    """Jumps that stay: lazily built state early in the run, a new level later."""
    if len(points) < 6:
        return []
    levels = [p.anon_bytes for p in points]
    least = max(_WORTH_BYTES, levels[0] // 20)
    at = [i for i, (a, b) in enumerate(pairwise(levels)) if b - a >= least]
    sizes = [levels[i + 1] - levels[i] for i in at]
    few = 1 <= len(at) <= max(1, min(_MOST_STEPS, len(points) // 8))
    if not few or sum(sizes) < (0.6 if len(at) == 1 else 0.8) * (levels[-1] - levels[0]):
        return []
    if not all(_stays(levels, i) for i in at):
        return []
    largest = at[max(range(len(at)), key=lambda i: sizes[i])]
    early = max(at) < max(3, len(points) // 6)
    generations = ", ".join(str(points[i + 1].generation) for i in at)
    when = f" in generation {generations}" if by_generation else ""
    what = "warm-up" if early else "a new level"
    return [
        Finding(
            Kind.WARM_UP if early else Kind.LEVEL_SHIFT,
            f"not a leak: {what}, {' and '.join(map(format_bytes, sizes))}{when}, flat otherwise",
            onset_generation=points[largest + 1].generation if by_generation else None,
            confidence=0.8,
            evidence=tuple(
                f"{format_bytes(levels[i])} -> {format_bytes(levels[i + 1])}" for i in at
            ),
        )
    ]


def _stays(levels: Sequence[int], at: int) -> bool:
    jump = levels[at + 1] - levels[at]
    return (
        min(levels[at + 1 :]) >= levels[at] + jump // 2 and max(levels[: at + 1]) <= levels[at + 1]
    )


def _saturating(timeline: Timeline, fillings: Sequence[Filling]) -> list[Finding]:
    points = timeline.points
    levels = [float(p.anon_bytes) for p in points]
    if fillings or len(points) < 9 or levels[-1] - levels[0] < _WORTH_BYTES:
        return []
    if not is_saturating([float(p.generation) for p in points], levels):
        return []
    return [
        Finding(
            Kind.WARM_UP,
            f"not a leak: growth slows down, {format_bytes(round(levels[-1] - levels[0]))} in all",
            confidence=0.7,
            evidence=(f"{format_bytes(round(levels[0]))} -> {format_bytes(round(levels[-1]))}",),
        )
    ]


def _spikes(timeline: Timeline) -> list[Finding]:
    spikes: dict[str, int] = {}
    for phase in timeline.phases:
        above = phase.peak_bytes - max(phase.before_bytes, 1)
        above -= max(0, round(phase.growth_bytes))
        if above >= max(4 * _WORTH_BYTES, phase.before_bytes // 4):
            spikes[phase.name] = max(spikes.get(phase.name, 0), above)
    found = spikes or _sampled_spikes(timeline)
    largest = sorted(found, key=lambda name: -found[name])[:_MOST_SPIKES]
    return [
        Finding(
            Kind.SPIKE,
            f"not a leak: {name or 'something'} needs {format_bytes(found[name])} for a moment and "
            "gives it back",
            phase=name,
            confidence=0.9,
            advice="the peak counts for the limit, not the level: stream what the phase writes",
        )
        for name in found
        if name in largest
    ]


def _sampled_spikes(timeline: Timeline) -> dict[str, int]:
    """By phase, what samples between two generations' ends show above both ends."""
    if not timeline.by_generation:
        return {}
    points, spans = timeline.points, phase_spans(timeline)
    ends = [point.t for point in points]
    spikes: list[tuple[int, float]] = []
    for t, anon in timeline.samples:
        at = bisect_left(ends, t)
        if not 0 < at < len(points):
            continue
        level = max(points[at - 1].anon_bytes, points[at].anon_bytes)
        if anon - level >= max(4 * _WORTH_BYTES, level // 4):
            spikes.append((anon - level, t))
    found: dict[str, int] = {}
    for size, t in sorted(spikes, reverse=True)[:_MOST_SAMPLED]:
        names = [name for begin, end, name in spans if begin <= t <= end]
        name = names[-1] if names else ""
        found[name] = max(found.get(name, 0), size)
    return found


def _file_pages(points: Sequence[Point]) -> list[Finding]:
    if len(points) < 3:
        return []
    grown = points[-1].file_bytes - points[0].file_bytes
    if grown < 2 * _WORTH_BYTES or grown < 0.1 * (points[0].anon_bytes + points[0].file_bytes):
        return []
    return [
        Finding(
            Kind.FILE_PAGES,
            f"not a leak: {format_bytes(grown)} of file pages; the kernel takes them back when "
            "memory is short",
            culprit=Culprit("mapped files", "files"),
            confidence=0.9,
            evidence=(
                f"{format_bytes(points[0].file_bytes)} -> {format_bytes(points[-1].file_bytes)}",
            ),
        )
    ]


def _sawtooth(timeline: Timeline) -> list[Finding]:
    """Growth over several generations that a collection takes back, again and again."""
    levels = [p.anon_bytes for p in timeline.points]
    if len(levels) < 8:
        return []
    size = max(levels[1:]) - min(levels[1:])
    drops = [i for i in range(2, len(levels)) if levels[i - 1] - levels[i] >= 0.5 * size]
    rises = sum(b > a for a, b in pairwise(levels))
    if size < _WORTH_BYTES or len(drops) < 2 or rises < 2 * len(drops):
        return []
    lows = [levels[i] for i in drops]
    if max(lows) - min(lows) > 0.3 * size:
        return []
    return [
        Finding(
            Kind.SAWTOOTH,
            f"not a leak: memory rises by up to {format_bytes(size)} and falls back, "
            f"{len(drops)} times, as the garbage collector runs",
            confidence=0.8,
            evidence=(f"lowest {format_bytes(min(lows))}, highest {format_bytes(max(levels))}",),
            advice="the peak counts for the limit: collect more often (gc.collect(), "
            "gc.set_threshold()) or break the cycles to lower it",
        )
    ]


def _waste(timeline: Timeline) -> list[Finding]:
    """What the last snapshot would let the user save; leaks and imports are not waste."""
    snapshots = live_snapshots(timeline)
    if not snapshots:
        return []
    statement = snapshots[-1].statement
    rules = (repeated_observations, wide_floats, float_images)
    worth = worth_bytes(statement)
    found = [a for rule in rules if (a := rule(statement)) is not None and a.saves_bytes >= worth]
    return [
        Finding(
            Kind.WASTE,
            f"could be saved: {format_bytes(advice.saves_bytes)}: {advice.title}",
            confidence=0.8,
            evidence=(advice.why,),
            advice="; ".join(advice.do),
        )
        for advice in found
    ]


def _never_filled(timeline: Timeline) -> list[Finding]:
    """Room that was reserved and is never reached, though the run is long settled."""
    snapshots = live_snapshots(timeline)
    if len(snapshots) < 3:
        return []
    middle, last = snapshots[len(snapshots) // 2], snapshots[-1]
    findings = []
    for name, entry in last.entries.items():
        reserved, used = entry.reserved_bytes, entry.resident_bytes
        if entry.source not in OWNERS or reserved < 4 * _WORTH_BYTES:
            continue
        if entry.fill == 1:  # full: the rest is for what would take more of it
            continue
        if used <= 0.5 * reserved and used - middle.resident(name) < 0.02 * used:
            path = name.removeprefix("variables/")
            findings.append(
                Finding(
                    Kind.WASTE,
                    f"{path} has room for {format_bytes(reserved)} and uses {format_bytes(used)}, "
                    "no more than before: its capacity is too large",
                    culprit=Culprit("buffer", path),
                    confidence=0.7,
                    evidence=(f"{used / reserved:.0%} filled, not rising",),
                    advice="lower its capacity; untouched pages cost no RAM yet, but a plan must "
                    "count them",
                )
            )
    return findings
