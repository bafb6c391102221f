"""What a run will need: constants stay, buffers end at their capacity, lines go on.

The sum of the futures of its rows, judged on this run's own memory; what other programs on the
machine do is another question.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, sqrt
from statistics import median

from ramledger.diagnose import thresholds
from ramledger.diagnose.finding import Outlook
from ramledger.diagnose.growth_table import GrowthTable
from ramledger.ledger import Limit
from ramledger.run.shapes import Fit
from ramledger.run.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Seen:
    """All processes together, as samples saw them: levels by time, and the peak so far."""

    levels: Mapping[float, int]
    peak_bytes: int
    to_come_bytes: int = 0  # of worker processes that are still starting


def outlook(
    table: GrowthTable,
    planned: int | None,
    limit: Limit | None,
    seen: Seen | None = None,
    *,
    leaks: bool = True,
) -> Outlook:
    """For the last planned generation; without a plan, for when all that ends has ended.

    What `leaks` goes on. Of another rise nobody knows: it may last once more as long as so far.
    """
    timeline, points = table.timeline, table.timeline.points
    end = float(points[-1].generation)
    span = max(1.0, end - points[0].generation)
    rises = any(table.matters(one) for one in (*table.dense, table.children, table.shm))
    at = max(end, float(planned or 0))
    if planned is None and not rises:
        at = end + min(thresholds.FARTHEST * span, _until_full(table, end))
    low, middle, high = _level(table, at, leaks)
    if planned is None:
        middle, high = (size + _left_to_fill(table, at) for size in (middle, high))
    to_come = seen.to_come_bytes if seen is not None else 0
    middle, high = middle + to_come, high + to_come
    beside = _beside(table, seen)
    peak = _spike(table) + beside
    files = points[-1].file_bytes  # they stay, unless memory is short
    reached: int | None = None
    interval: tuple[int, int | None] | None = None
    if limit is not None and limit.bytes and timeline.by_generation:
        last = end + thresholds.FARTHEST * span if planned is None else at
        hits = [_reaches(table, limit.bytes - peak, which, end, last, leaks) for which in (2, 1, 0)]
        soonest, likely, latest = hits
        if likely is not None:
            reached = round(likely)
            interval = (
                round(soonest if soonest is not None else likely),
                None if latest is None else round(latest),
            )
    # what it has needed already it will have needed at the end
    least = max(_highest(table) + beside + files, seen.peak_bytes if seen is not None else 0)
    low, middle, high = (max(least, size + peak + files) for size in (low, middle, high))
    doubt = thresholds.FORECAST_DOUBT * middle
    return Outlook(
        planned,
        round(middle),
        (round(max(least, min(low, middle - doubt))), round(max(high, middle + doubt))),
        files,
        limit,
        reached,
        interval,
        to_come,
    )


def _beside(table: GrowthTable, seen: Seen | None) -> float:
    """What no series has: pages of files that other processes map, and what all of them share."""
    if seen is None:
        return 0.0
    timeline = table.timeline
    known = [level - size for t, size in _together_at(timeline) if (level := seen.levels.get(t))]
    late = known[-max(1, len(known) // 3) :]
    return median(late) - timeline.points[-1].file_bytes if late else 0.0


def _together_at(timeline: Timeline) -> Iterator[tuple[float, int]]:
    """Anonymous memory of the process, with its children and /dev/shm, at each sample."""
    outside = {row.t: row.children_bytes + row.shm_bytes for row in timeline.outside}
    for t, size in timeline.samples:
        yield t, size + outside.get(t, 0)


def _highest(table: GrowthTable) -> float:
    """The most that all processes together had at one moment, without pages of files."""
    return max((size for _, size in _together_at(table.timeline)), default=0)


def _left_to_fill(table: GrowthTable, at: float) -> float:
    """What all that fills lacks by then: where nobody says when a run ends, it ends full."""
    lacking = 0.0
    for process in (table, *table.workers):
        for name, capacity in process.capacities.items():
            fills = name in process.fillings
            held = process.fits[name].predict(at)[1] if fills else process.accounts[name][-1][1]
            lacking += max(0.0, capacity - held)
    return lacking


def _until_full(table: GrowthTable, end: float) -> float:
    """Iterations until the last buffer is full, as fast as they fill now."""
    left = [
        (process.capacities[name] - one.predict(end)[1]) / one.rate
        for process in (table, *table.workers)
        for name in process.fillings
        if (one := process.fits[name]).rate > 0
    ]
    return max(0.0, *left) if left else 0.0


def _level(table: GrowthTable, at: float, leaks: bool) -> tuple[float, float, float]:
    """Low, middle and high of everything together; doubts of rows add as their squares."""
    series = (table.children, table.shm)
    parts = [future(one, at, leaks) for one in series if one.points]
    # holes and headers come with the elements of a buffer, and end with them
    left = table.until_full(table.level)
    until = min(at, table.level.stop + left) if left else at
    parts.append(future(table.level, until, leaks))
    for process in (table, *table.workers):
        for name in process.fillings:
            one, capacity = process.fits[name], process.capacities[name]
            low, middle, high = (min(size, capacity) for size in one.predict(at))
            parts.append((low, middle, high))
    middle = sum(part[1] for part in parts)
    below = _together(part[1] - part[0] for part in parts)
    above = _together(part[2] - part[1] for part in parts)
    return max(0.0, middle - below), middle, middle + above


def future(one: Fit, at: float, leaks: bool) -> tuple[float, float, float]:
    """What falls may stop to: its level counts. What rises may, too: that is the lower bound.

    Of a rise that has lasted for so long, at least a ninth more is to come in nine of ten cases,
    and in half of them as much again.
    """
    if one.rate <= 0:
        return one.predict(one.stop)
    low, middle, high = one.predict(at)
    lasted = one.stop - (one.onset if one.onset is not None else one.start)
    soon = one.stop + thresholds.SURELY_LASTS * lasted
    if not leaks:
        middle = one.predict(min(at, one.stop + lasted))[1]
    return (low if at <= soon else min(low, one.predict(soon)[0])), middle, high


def _together(doubts: Iterable[float]) -> float:
    return sqrt(sum(min(doubt, 1e15) ** 2 for doubt in doubts))


def _spike(table: GrowthTable) -> float:
    """How far the settled run rose above its level within iterations."""
    points, fit = table.timeline.points, table.whole_level
    begin = points[int(thresholds.SETTLED * len(points))].t
    samples = [(t, size) for t, size in table.timeline.samples if begin <= t <= points[-1].t]
    times = [point.t for point in points]
    highest = 0.0
    for t, size in samples:
        after = min(bisect_left(times, t), len(points) - 1)
        level = fit.predict(float(points[after].generation))[1]
        highest = max(highest, size - level)
    return highest


def _reaches(
    table: GrowthTable, size: float, which: int, start: float, last: float, leaks: bool
) -> float | None:
    """When the low (0), middle (1) or high (2) estimate first reaches a size; None: not so far."""
    if _level(table, start, leaks)[which] >= size:
        return start
    if _level(table, last, leaks)[which] < size:
        return None
    low, high = start, last if last < inf else start
    for _ in range(60):
        middle = (low + high) / 2
        if _level(table, middle, leaks)[which] >= size:
            high = middle
        else:
            low = middle
    return high
