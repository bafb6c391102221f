"""What a run will need: constants stay, buffers end at their capacity, lines go on.

The sum of the futures of its rows, judged on this run's own memory; what other programs on the
machine do is another question.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from math import inf, sqrt

from ramledger.diagnose.finding import GrowthLine, Outlook
from ramledger.diagnose.growth_table import GrowthTable, onset_generation
from ramledger.ledger import Limit
from ramledger.run.shapes import GrowthRow
from ramledger.run.shapes.filled_in import level_at

OTHERS = "other accounts"  # all but the largest together
_FARTHEST = 1000.0  # times the iterations so far: what lies beyond is no forecast
_MOST_LINES = 20
_SETTLED = 0.5  # of the run: peaks before that may be start-up's


def outlook(table: GrowthTable, planned: int | None, limit: Limit | None) -> Outlook:
    """For the last planned generation; without a plan, for when all that ends has ended."""
    points = table.timeline.points
    end = float(points[-1].generation)
    span = max(1.0, end - points[0].generation)
    rises = any(table.matters(one) for one in (*table.dense, table.children, table.shm))
    at = float(planned) if planned is not None and planned > end else end
    if planned is None and not rises:
        at = end + min(_FARTHEST * span, _until_full(table, end))
    low, middle, high = _level(table, at)
    peak = _spike(table)
    reached: int | None = None
    interval: tuple[int, int | None] | None = None
    if limit is not None and limit.bytes:
        last = end + _FARTHEST * span if planned is None else at
        hits = [_reaches(table, limit.bytes - peak, which, end, last) for which in (2, 1, 0)]
        soonest, likely, latest = hits
        if likely is not None:
            reached = round(likely)
            interval = (
                round(soonest if soonest is not None else likely),
                None if latest is None else round(latest),
            )
    return Outlook(
        planned,
        round(middle + peak),
        (round(low + peak), round(high + peak)),
        limit,
        reached,
        interval,
    )


def _until_full(table: GrowthTable, end: float) -> float:
    """Iterations until the last buffer is full, as fast as they fill now."""
    left = [
        (table.capacities[name] - one.predict(end)[1]) / one.rate
        for name in table.fillings
        if (one := table.fits[name]).rate > 0
    ]
    return max(0.0, *left) if left else 0.0


def growth_lines(table: GrowthTable, planned: int | None) -> tuple[GrowthLine, ...]:
    """The largest changes, all others together, and what no account explains."""
    statement = table.statement
    rows = sorted(statement.rows, key=lambda row: (-abs(row.growth), row.name))
    kept, others = rows[:_MOST_LINES], rows[_MOST_LINES:]
    lines = [_line(table, row, planned) for row in kept]
    if others:
        growth, whole = sum(row.growth for row in others), statement.whole.growth
        span = statement.stop - statement.start
        per, points = table.timeline.rate_unit
        rate = points * growth / span if span else 0.0
        share = growth / whole if whole else 0.0
        lines.append(GrowthLine(OTHERS, growth, rate, (rate, rate), share, "", per=per))
    return (*lines, _line(table, statement.unexplained, planned))


def growth_total(table: GrowthTable, planned: int | None) -> GrowthLine:
    """The growth of RSS, which the lines sum to."""
    return replace(_line(table, table.statement.whole, planned), account="RSS")


def growth_span(table: GrowthTable) -> tuple[float, float]:
    """The stretch in which all accounts are known: generations, or seconds."""
    begin, end = table.statement.start, table.statement.stop
    if table.timeline.by_generation:
        return round(begin, 1), round(end, 1)
    times = [(float(point.generation), point.t) for point in table.timeline.points]
    return round(level_at(times, begin), 1), round(level_at(times, end), 1)


def _line(table: GrowthTable, row: GrowthRow, planned: int | None) -> GrowthLine:
    fit = row.fit
    per, points = table.timeline.rate_unit
    low, high = row.rate_interval
    capacity = table.capacities.get(row.name, fit.capacity)
    return GrowthLine(
        row.name,
        row.growth,
        points * row.rate,
        (points * low, points * high),
        row.share,
        str(fit.shape),
        max(0, round(fit.level)),
        None if fit.onset is None else onset_generation(table.timeline, fit),
        None if capacity is None else round(capacity),
        None if planned is None else round(fit.predict(float(planned))[1]),
        per,
    )


def _level(table: GrowthTable, at: float) -> tuple[float, float, float]:
    """Low, middle and high of everything together; doubts of rows add as their squares."""
    series = (table.level, table.children, table.shm)
    parts = [one.predict(at) for one in series if one.points]
    for name in table.fillings:
        low, middle, high = table.fits[name].predict(at)
        capacity = table.capacities[name]
        parts.append((min(low, capacity), min(middle, capacity), min(high, capacity)))
    middle = sum(part[1] for part in parts)
    below = _together(part[1] - part[0] for part in parts)
    above = _together(part[2] - part[1] for part in parts)
    return max(0.0, middle - below), middle, middle + above


def _together(doubts: Iterable[float]) -> float:
    return sqrt(sum(min(doubt, 1e15) ** 2 for doubt in doubts))


def _spike(table: GrowthTable) -> float:
    """How far the settled run rose above its level within iterations."""
    points, fit = table.timeline.points, table.whole_level
    begin = points[int(_SETTLED * len(points))].t
    samples = [(t, size) for t, size in table.timeline.samples if begin <= t <= points[-1].t]
    times = [point.t for point in points]
    highest = 0.0
    for t, size in samples:
        after = min(bisect_left(times, t), len(points) - 1)
        level = fit.predict(float(points[after].generation))[1]
        highest = max(highest, size - level)
    return highest


def _reaches(
    table: GrowthTable, size: float, which: int, start: float, last: float
) -> float | None:
    """When the low (0), middle (1) or high (2) estimate first reaches a size; None: not so far."""
    if _level(table, start)[which] >= size:
        return start
    if _level(table, last)[which] < size:
        return None
    low, high = start, last if last < inf else start
    for _ in range(60):
        middle = (low + high) / 2
        if _level(table, middle)[which] >= size:
            high = middle
        else:
            low = middle
    return high
