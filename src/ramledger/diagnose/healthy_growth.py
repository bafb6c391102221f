"""Growth that is no leak, named: filling, warm-up, spikes, shifts, file pages, and waste."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ramledger.diagnose import thresholds
from ramledger.diagnose.advice import (
    Advice,
    float_images,
    repeated_observations,
    wide_floats,
    worth_bytes,
)
from ramledger.diagnose.capacities import OWNERS
from ramledger.diagnose.finding import Culprit, Finding, Kind
from ramledger.diagnose.growth_places import phase_spans
from ramledger.diagnose.growth_table import GrowthTable
from ramledger.run.one_snapshot import Snapshot
from ramledger.run.shapes import Fit, Shape, Teeth
from ramledger.run.timeline import Point, Timeline
from ramledger.units import format_bytes

_MOST_SPIKES = 8
_MOST_SAMPLED = 100  # the largest ones get the name of their phase


def healthy_findings(table: GrowthTable) -> list[Finding]:
    """Everything worth a sentence that is not a leak."""
    timeline = table.timeline
    findings = [_filling(name, table) for name in table.fillings]
    findings += _filling_in_workers(table)
    findings += _level(table)
    findings += _more_processes(table)
    findings += _spikes(timeline)
    findings += _file_pages(timeline.points)
    findings += [*_waste(table.snapshots), *_never_filled(table.snapshots)]
    return findings


def _filling_in_workers(table: GrowthTable) -> list[Finding]:
    """One for each name: workers that run the same code have the same buffers."""
    found: dict[str, tuple[GrowthTable, int]] = {}
    for worker in table.workers:
        for name in worker.fillings:
            first, count = found.get(name, (worker, 0))
            found[name] = first, count + 1
    findings = []
    for name, (worker, count) in found.items():
        one = _filling(name, worker)
        where = f"worker process {worker.timeline.main_pid}"
        if count > 1:
            where = f"{count} worker processes, such as {worker.timeline.main_pid}"
        findings.append(replace(one, summary=f"{one.summary}, in {where}"))
    return findings


def _filling(account: str, table: GrowthTable) -> Finding:
    fit, capacity = table.fits[account], table.capacities[account]
    path = account.removeprefix("variables/")
    end = float(table.timeline.points[-1].generation)
    now = min(capacity, fit.predict(end)[1])
    final = format_bytes(round(capacity))
    is_full = now >= thresholds.NEARLY_ALL * capacity
    if is_full:
        summary = f"not a leak: {path} is full at {format_bytes(round(now))}"
    else:
        left = round((capacity - now) / fit.rate) if fit.rate > 0 else 0
        when = f", in about {left:,} iterations" if left else ""
        summary = f"not a leak: {path} fills: {now / capacity:.0%} full, {final} when full{when}"
    first = table.accounts[account][0][1]
    return Finding(
        Kind.FILLING,
        summary,
        culprit=Culprit("buffer", path),
        evidence=(
            f"{account}: {format_bytes(round(first))} -> {format_bytes(round(now))} of {final}",
        ),
        advice="" if is_full else f"plan for {final}, or lower its capacity",
    )


def _level(table: GrowthTable) -> list[Finding]:
    """What the level does beside buffers that fill: it steps, slows down, or rises and falls."""
    fit = table.level
    start, end = fit.predict(fit.start)[1], fit.level
    teeth = fit.teeth if fit.shape is Shape.SAWTOOTH else None
    if teeth is not None and teeth.height >= thresholds.WORTH_BYTES:
        return [_sawtooth(teeth, end)]
    if end - start < max(thresholds.WORTH_BYTES, thresholds.WORTH_OF_LEVEL * start):
        return []
    if fit.shape is Shape.STEP:
        return [_step(table, fit, round(end - start))]
    if fit.shape is Shape.FILLING:
        owners = _ended_owners(table, end - start)
        return [_ended(name, table) for name in owners] or [
            Finding(
                Kind.WARM_UP,
                f"not a leak: growth has ended or slows down, {format_bytes(round(end - start))} "
                "in all",
                evidence=(f"{format_bytes(round(start))} -> {format_bytes(round(end))}",),
            )
        ]
    return []


def _more_processes(table: GrowthTable) -> list[Finding]:
    """Other processes that came, or took more, once and for good."""
    fit = table.whole_children
    grown = fit.level - fit.predict(fit.start)[1] if fit.points else 0.0
    if fit.shape is not Shape.STEP or grown < thresholds.WORTH_BYTES:
        return []
    found = _step(table, fit, round(grown))
    counts = [count for _, count in table.timeline.worker_counts] or [0]
    return [
        replace(
            found,
            summary=f"{found.summary}, in other processes of the run",
            evidence=(f"their number: {counts[0]} -> {counts[-1]}",),
        )
    ]


def _ended_owners(table: GrowthTable, grown: float) -> list[str]:
    """Names that filled up, to a capacity that nothing states, and make up much of the growth."""
    return [
        name
        for name, fit in table.fits.items()
        if name.startswith("variables/")
        and table.is_judged(name)
        and fit.shape is Shape.FILLING
        and fit.level - table.accounts[name][0][1] >= thresholds.GOOD_PART * grown
    ]


def _ended(account: str, table: GrowthTable) -> Finding:
    fit, path = table.fits[account], account.removeprefix("variables/")
    first = format_bytes(round(table.accounts[account][0][1]))
    return Finding(
        Kind.FILLING,
        f"not a leak: {path} filled up to {format_bytes(round(fit.level))} and stays there",
        culprit=Culprit("buffer", path),
        evidence=(f"{account}: {first} -> {format_bytes(round(fit.level))}",),
    )


def _step(table: GrowthTable, fit: Fit, size: int) -> Finding:
    """Jumps that stay: lazily built state early in the run, a new level later."""
    points = table.timeline.points
    jumps = [
        (round(after.start), round(after.level - before.value(after.start)))
        for before, after in pairwise(fit.pieces)
        if after.level - before.value(after.start) >= thresholds.SMALL_PART * size
    ] or [(round(fit.onset or fit.start), size)]
    warm = max(thresholds.WARM_UP, thresholds.WARM_UP_OF_RUN * (fit.stop - fit.start))
    is_early = jumps[-1][0] - fit.start < warm
    by_generation = table.timeline.by_generation
    when = f" in iteration {', '.join(str(at) for at, _ in jumps)}" if by_generation else ""
    what = "warm-up" if is_early else "a new level"
    largest = max(jumps, key=lambda jump: jump[1])
    return Finding(
        Kind.WARM_UP if is_early else Kind.LEVEL_SHIFT,
        f"not a leak: {what}, {' and '.join(format_bytes(grown) for _, grown in jumps)}{when}, "
        "flat otherwise",
        onset_generation=largest[0] if by_generation else None,
        evidence=(
            f"{format_bytes(points[0].anon_bytes)} -> {format_bytes(points[-1].anon_bytes)}",
        ),
    )


def _sawtooth(teeth: Teeth, level: float) -> Finding:
    """Growth over several generations that a collection takes back, again and again."""
    return Finding(
        Kind.SAWTOOTH,
        f"not a leak: memory rises by up to {format_bytes(round(teeth.height))} and falls back, "
        f"{teeth.count} times, as the garbage collector runs",
        evidence=(
            f"lowest {format_bytes(round(level))}, "
            f"highest {format_bytes(round(level + teeth.height))}",
        ),
        advice="the peak counts for the limit: collect more often (gc.collect(), "
        "gc.set_threshold()) or break the cycles to lower it",
    )


def _spikes(timeline: Timeline) -> list[Finding]:
    spikes: dict[str, int] = {}
    for phase in timeline.phases:
        above = phase.peak_bytes - max(phase.before_bytes, 1)
        above -= max(0, round(phase.growth_bytes))
        if above >= max(thresholds.LARGE_BYTES, thresholds.SPIKE_OF_LEVEL * phase.before_bytes):
            spikes[phase.name] = max(spikes.get(phase.name, 0), above)
    found = spikes or _sampled_spikes(timeline)
    largest = sorted(found, key=lambda name: -found[name])[:_MOST_SPIKES]
    return [
        Finding(
            Kind.SPIKE,
            f"not a leak: {name or 'something'} needs {format_bytes(found[name])} for a moment and "
            "gives it back",
            phase=name,
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
        if anon - level >= max(thresholds.LARGE_BYTES, thresholds.SPIKE_OF_LEVEL * level):
            spikes.append((anon - level, t))
    found: dict[str, int] = {}
    for size, t in sorted(spikes, reverse=True)[:_MOST_SAMPLED]:
        names = [name for begin, end, name in spans if begin <= t <= end]
        name = names[-1] if names else ""
        found[name] = max(found.get(name, 0), size)
    return found


def _file_pages(points: Sequence[Point]) -> list[Finding]:
    grown = points[-1].file_bytes - points[0].file_bytes
    before = points[0].anon_bytes + points[0].file_bytes
    if grown < max(thresholds.FILE_PAGES_BYTES, thresholds.SMALL_PART * before):
        return []
    return [
        Finding(
            Kind.FILE_PAGES,
            f"not a leak: {format_bytes(grown)} of file pages; the kernel takes them back when "
            "memory is short",
            culprit=Culprit("mapped files", "files"),
            evidence=(
                f"{format_bytes(points[0].file_bytes)} -> {format_bytes(points[-1].file_bytes)}",
            ),
        )
    ]


def _waste(snapshots: Sequence[Snapshot]) -> list[Finding]:
    """What the last snapshot would let the user save; leaks and imports are not waste."""
    if not snapshots:
        return []
    statement = snapshots[-1].statement
    rules = (repeated_observations, wide_floats, float_images)
    worth = worth_bytes(statement)
    found = [a for rule in rules if (a := rule(statement)) is not None and a.saves_bytes >= worth]
    return [waste(advice) for advice in found]


def waste(advice: Advice) -> Finding:
    """An advice as a finding."""
    return Finding(
        Kind.WASTE,
        f"could be saved: {format_bytes(advice.saves_bytes)}: {advice.title}",
        evidence=(advice.why,),
        advice="; ".join(advice.do),
        apply=advice.apply,
    )


def _never_filled(snapshots: Sequence[Snapshot]) -> list[Finding]:
    """Room that was reserved and is never reached, though the run is long settled."""
    if len(snapshots) < 3:
        return []
    middle, last = snapshots[len(snapshots) // 2], snapshots[-1]
    findings = []
    for name, entry in last.entries.items():
        reserved, used = entry.reserved_bytes, entry.resident_bytes
        if entry.source not in OWNERS or reserved < thresholds.LARGE_BYTES:
            continue
        if entry.fill == 1:  # full: the rest is for what would take more of it
            continue
        is_rising = used - middle.resident(name) >= thresholds.NO_RISE * used
        if used <= thresholds.MOST * reserved and not is_rising:
            path = name.removeprefix("variables/")
            findings.append(
                Finding(
                    Kind.WASTE,
                    f"{path} has room for {format_bytes(reserved)} and uses {format_bytes(used)}, "
                    "no more than before: its capacity is too large",
                    culprit=Culprit("buffer", path),
                    evidence=(f"{used / reserved:.0%} filled, not rising",),
                    advice="lower its capacity; untouched pages cost no RAM yet, but a plan must "
                    "count them",
                )
            )
    return findings
