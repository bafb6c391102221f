"""A stretch of a run as a statement: the growth of its parts plus unexplained is that of the whole.

All rows use the same moments and the same linear estimator, so that they add up to the byte; each
carries the Fit of its own series, from which its shape and future are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ramledger.run.shapes.constants import FIRST_POINTS, MOST_MOMENTS, ONE_BYTE
from ramledger.run.shapes.curve import cleaned, in_own_units, spikes
from ramledger.run.shapes.estimate import fit
from ramledger.run.shapes.filled_in import dense, level_at, moved_with
from ramledger.run.shapes.fit import Fit, Interval, Points
from ramledger.run.shapes.slope import slope_of


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """What one part adds over the stretch, on the line that fits it best."""

    name: str
    growth: int  # over the stretch
    rate: float  # growth per unit of `at`
    rate_interval: Interval
    share: float  # of the growth of the whole; 0 where that does not grow
    fit: Fit  # of its points and what the whole tells of it, up to the end that was asked for


@dataclass(frozen=True, slots=True)
class GrowthStatement:
    """Rows by growth, the largest first; their growth and `unexplained` sum to `whole`, exactly."""

    start: float
    stop: float
    rows: tuple[GrowthRow, ...]
    unexplained: GrowthRow
    whole: GrowthRow


def growth_statement(
    parts: Mapping[str, Points],
    whole: Points,
    start: float,
    stop: float,
    *,
    capacities: Mapping[str, float] | None = None,
    quantum: float = 0.0,
) -> GrowthStatement:
    """Growth from `start` to `stop`, as far as all parts are known, straight between snapshots.

    An owner that a snapshot does not list is unknown there, not 0: leave that point out.
    """
    known = {name: _sorted(points) for name, points in parts.items()}
    measured, asked = _sorted(whole), (min(start, stop), max(start, stop))
    start, stop = _known_stretch([*known.values(), measured], *asked)
    moments, levels = _moments(measured, start, stop)
    thin = dense(measured)
    rest = list(levels)
    rows = []
    for name, points in known.items():
        values = [level_at(points, at) for at in moments]
        rest = [level - value for level, value in zip(rest, values, strict=True)]
        capacity = (capacities or {}).get(name)
        likely = _within(moved_with(points, thin), *asked)
        own = fit(likely, capacity=capacity, quantum=quantum)
        rows.append(_row(name, moments, values, own, _within(points, start, stop)))
    total = _row("", moments, levels, fit(_within(measured, *asked), quantum=quantum))
    left = total.growth - sum(row.growth for row in rows)
    remaining = list(zip(moments, rest, strict=True))
    unexplained = _row("unexplained", moments, rest, fit(remaining, quantum=quantum), growth=left)
    rows.sort(key=lambda row: (-row.growth, row.name))
    return GrowthStatement(
        start,
        stop,
        tuple(_with_share(row, total) for row in rows),
        _with_share(unexplained, total),
        _with_share(total, total),
    )


def _with_share(row: GrowthRow, total: GrowthRow) -> GrowthRow:
    share = row.growth / total.growth if total.growth else 0.0
    return GrowthRow(row.name, row.growth, row.rate, row.rate_interval, share, row.fit)


def _row(
    name: str,
    moments: Sequence[float],
    values: Sequence[float],
    own: Fit,
    points: Points | None = None,
    growth: int | None = None,
) -> GrowthRow:
    """The slope over the common moments; the doubt is that of the points that were measured."""
    span = moments[-1] - moments[0] if moments else 0.0
    if not span:
        return GrowthRow(name, growth or 0, 0.0, (0.0, 0.0), 0.0, own)
    found = slope_of([at - moments[0] for at in moments], [v - values[0] for v in values], ONE_BYTE)
    if growth is None:
        growth = round(found.slope * span)
    rate = growth / span
    doubt = found.doubt
    if points is not None:
        xs = [at - moments[0] for at, _ in points]
        doubt = slope_of(xs, [value - values[0] for _, value in points], ONE_BYTE).doubt
    return GrowthRow(name, growth, rate, (rate - doubt, rate + doubt), 0.0, own)


# ---- the stretch ------------------------------------------------------------------------------


def _sorted(points: Points) -> list[tuple[float, float]]:
    return list(zip(*cleaned(points), strict=True))


def _known_stretch(
    series: Iterable[Sequence[tuple[float, float]]], start: float, stop: float
) -> tuple[float, float]:
    """The part of it in which every series has points; all of it where there is none."""
    known = [points for points in series if points]
    first = max([start, *(points[0][0] for points in known)])
    last = min([stop, *(points[-1][0] for points in known)])
    return (first, last) if first < last else (start, stop)


def _within(points: Points, start: float, stop: float) -> list[tuple[float, float]]:
    return [point for point in points if start <= point[0] <= stop]


def _moments(whole: Points, start: float, stop: float) -> tuple[list[float], list[float]]:
    """Where the whole is measured, without its spikes; the ends of the stretch are interpolated."""
    inside, known = _within(whole, start, stop), whole
    if 1 < len(inside) <= FIRST_POINTS:
        curve, _ = in_own_units([at for at, _ in inside], [value for _, value in inside], 0.0)
        dropped = {inside[i] for i in spikes(curve)}
        inside = [point for point in inside if point not in dropped]
        known = [point for point in whole if point not in dropped]
    step = max(1, len(inside) // MOST_MOMENTS)
    chosen = sorted({start, stop, *(at for at, _ in inside[::step])})
    return chosen, [level_at(known, at) for at in chosen]
