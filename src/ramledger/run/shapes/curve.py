"""A series made ready for fitting: clean, in units of its own span and range, thin, without spikes.

In these units no fit overflows, and neither shifting nor scaling a series changes its judgement.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, sqrt

from ramledger.run.shapes.constants import (
    BINS,
    FIRST_POINTS,
    LEAST_FOR_SPIKES,
    LEAST_NUMBER,
    LEAST_QUANTUM,
    MAD_TO_SIGMA,
    MOST_NUMBER,
    MOST_POINTS,
    MOST_SPIKES,
    SAME_MOMENT,
    SPIKE,
    SPIKE_WINDOW,
)
from ramledger.run.shapes.fit import Points


@dataclass(frozen=True, slots=True)
class Units:
    """From own units back to the series: at = start + x * span, value = foot + y * range."""

    start: float
    span: float
    foot: float
    range: float

    def at(self, x: float) -> float:
        return self.start + x * self.span

    def value(self, y: float) -> float:
        return self.foot + y * self.range

    def rate(self, slope: float) -> float:
        return slope * self.range / self.span


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in own units, in order, one an x; `quantum` is the noise floor, in own units."""

    xs: Sequence[float]
    ys: Sequence[float]
    quantum: float
    source: "Curve | None" = None  # the denser one that it was thinned from

    def __len__(self) -> int:
        return len(self.xs)

    def part(self, begin: int, end: int | None = None) -> "Curve":
        return Curve(self.xs[begin:end], self.ys[begin:end], self.quantum, self.source)

    def without(self, dropped: set[int]) -> "Curve":
        kept = [i for i in range(len(self.xs)) if i not in dropped]
        return Curve([self.xs[i] for i in kept], [self.ys[i] for i in kept], self.quantum)


def median(values: Sequence[float]) -> float:
    """The middle one of a sequence that is not empty."""
    ordered = sorted(values)
    at = len(ordered) // 2
    return ordered[at] if len(ordered) % 2 else (ordered[at - 1] + ordered[at]) / 2


def cleaned(points: Points) -> tuple[list[float], list[float]]:
    """Finite points in order, one a moment: of several, their median."""
    found = [
        (_bounded(float(at)), _bounded(float(value)))
        for at, value in points
        if isfinite(at) and isfinite(value)
    ]
    if any(later[0] <= one[0] for one, later in pairwise(found)):
        found = _one_each(found)
    return [at for at, _ in found], [value for _, value in found]


def _bounded(number: float) -> float:
    return max(-MOST_NUMBER, min(MOST_NUMBER, number))


def _one_each(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    values: dict[float, list[float]] = {}
    for at, value in points:
        values.setdefault(at, []).append(value)
    return [(at, median(values[at])) for at in sorted(values)]


def in_own_units(
    ats: Sequence[float], values: Sequence[float], quantum: float
) -> tuple[Curve, Units]:
    """At most FIRST_POINTS points, from 0 to 1 in x and about so in y."""
    if len(ats) > FIRST_POINTS:
        ats, values = _groups(ats, values, FIRST_POINTS)
    foot, span = values[0], ats[-1] - ats[0]
    reach = max(abs(value) for value in values)
    size = max(values) - min(values)
    least = max(quantum, LEAST_QUANTUM * size, 4e-16 * reach, LEAST_NUMBER)
    units = Units(ats[0], max(span, LEAST_NUMBER), foot, max(size, least))
    points = [
        ((at - units.start) / units.span, (value - foot) / units.range)
        for at, value in zip(ats, values, strict=True)
    ]
    if any(later[0] - one[0] < SAME_MOMENT for one, later in pairwise(points)):
        points = _one_each([(round(x / SAME_MOMENT) * SAME_MOMENT, y) for x, y in points])
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return Curve(xs, ys, least / units.range), units


def _groups(
    ats: Sequence[float], values: Sequence[float], count: int
) -> tuple[list[float], list[float]]:
    """Medians of equally many neighbors; the last point is kept."""
    borders = [len(ats) * number // count for number in range(count + 1)]
    pairs = list(pairwise(borders))
    return (
        [*(ats[(a + b) // 2] for a, b in pairs[:-1]), ats[-1]],
        [median(values[a:b]) for a, b in pairs],
    )


def thinned(curve: Curve) -> Curve:
    """Few enough points to compare all pairs: medians within equal stretches of x."""
    if len(curve) <= MOST_POINTS:
        return curve
    first, last = curve.xs[0], curve.xs[-1]
    marks = [first + (last - first) * number / BINS for number in range(1, BINS)]
    borders = [0, *(bisect_left(curve.xs, mark) for mark in marks), len(curve)]
    pairs = [(a, b) for a, b in pairwise(borders) if b > a]
    return Curve(
        [sum(curve.xs[a:b]) / (b - a) for a, b in pairs],
        [median(curve.ys[a:b]) for a, b in pairs],
        curve.quantum,
        curve,
    )


def spikes(curve: Curve) -> set[int]:
    """Indexes of single points far off both sides; none where they are too many to be spikes.

    The edges of a tooth are off by the usual steps of its ramp: that is no spike.
    """
    count, reach = len(curve), SPIKE_WINDOW
    if count < LEAST_FOR_SPIKES:
        return set()
    ys = curve.ys
    offs = [
        ys[i] - sorted(ys[i - reach : i + reach + 1])[reach] for i in range(reach, count - reach)
    ]
    scale = max(MAD_TO_SIGMA * median([abs(off) for off in offs]), white_noise(curve))
    usual = reach * median([abs(after - before) for before, after in pairwise(ys)])
    found = {i for i, off in enumerate(offs, reach) if abs(off) > SPIKE * scale + usual}
    return found if len(found) <= MOST_SPIKES * count else set()


def white_noise(curve: Curve) -> float:
    """The scale of noise from point to point; lines and slow changes do not count."""
    ys = curve.ys
    if len(ys) < 3:
        return curve.quantum
    bends = [abs(a - 2 * b + c) for a, b, c in zip(ys, ys[1:], ys[2:], strict=False)]
    return max(MAD_TO_SIGMA * median(bends) / sqrt(6), curve.quantum)
