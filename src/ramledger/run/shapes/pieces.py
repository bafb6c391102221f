"""Where a series changes: the best borders between pieces, each flat or a line.

All borders are compared at once (optimal partitioning over prefix sums), for several guesses of the
noise; `choice.py` judges what comes out by the length of its description.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, sqrt

from ramledger.run.shapes.code_length import noise_of
from ramledger.run.shapes.constants import ALIKE, FEW_POINTS, LADDER, LASTING, LEAST_TO_DECIDE
from ramledger.run.shapes.curve import Curve, median, white_noise


@dataclass(frozen=True, slots=True)
class Part:
    """Indexes of one piece, and its line: level at x = 0, and slope (0 where it is flat)."""

    begin: int
    end: int
    foot: float
    slope: float
    is_flat: bool

    @property
    def count(self) -> int:
        return self.end - self.begin

    def y(self, x: float) -> float:
        return self.foot + self.slope * x


Partition = tuple[Part, ...]


def points_of_last_rate(parts: Partition) -> int:
    """Of the last piece, and of those before it that rise alike: a jump between them is a step."""
    count, last = 0, parts[-1]
    for part in reversed(parts):
        if part is not last and not (
            part.slope * last.slope > 0
            and max(part.slope / last.slope, last.slope / part.slope) <= ALIKE
        ):
            break
        count += part.count
    return count


Borders = tuple[tuple[int, bool], ...]  # where each piece begins, and whether it is flat


class Sums:
    """Prefix sums, from which the best line of any stretch follows at once."""

    def __init__(self, curve: Curve) -> None:
        self.x, self.y, self.xx, self.xy, self.yy = [0.0], [0.0], [0.0], [0.0], [0.0]
        middle = median(curve.ys)
        for x, y in zip(curve.xs, curve.ys, strict=True):
            x, y = x - 0.5, y - middle
            self.x.append(self.x[-1] + x)
            self.y.append(self.y[-1] + y)
            self.xx.append(self.xx[-1] + x * x)
            self.xy.append(self.xy[-1] + x * y)
            self.yy.append(self.yy[-1] + y * y)
        self.middle = middle

    def line(self, begin: int, end: int) -> tuple[float, float]:
        """Level at x = 0 and slope."""
        count = end - begin
        x, y = self.x[end] - self.x[begin], self.y[end] - self.y[begin]
        xx = self.xx[end] - self.xx[begin] - x * x / count
        xy = self.xy[end] - self.xy[begin] - x * y / count
        slope = xy / xx if xx > 1e-15 else 0.0
        return self.middle + y / count - slope * (x / count + 0.5), slope

    def errors(self) -> list[list[tuple[float, float]]]:
        """By end and begin: the squares that the best flat piece, and the best line, leave over."""
        rows = [list[tuple[float, float]]()]
        for end in range(1, len(self.x)):
            x1, y1, xx1, xy1, yy1 = (s[end] for s in (self.x, self.y, self.xx, self.xy, self.yy))
            row = []
            for begin in range(end):
                count = end - begin
                x, y = x1 - self.x[begin], y1 - self.y[begin]
                flat = yy1 - self.yy[begin] - y * y / count
                xx = xx1 - self.xx[begin] - x * x / count
                if xx > 1e-15:
                    xy = xy1 - self.xy[begin] - x * y / count
                    row.append((flat, flat - xy * xy / xx))
                else:
                    row.append((flat, flat))
            rows.append(row)
        return rows


def partitions(curve: Curve) -> list[Partition]:
    """Candidates: the best for each guess of the noise, their last piece flat and as a line."""
    sums = Sums(curve)
    count = len(curve)
    found: dict[Borders, None] = {((0, True),): None, ((0, False),): None}
    if count > 2:
        errors = sums.errors()
        for scale in _ladder(curve):
            for borders in _best(errors, scale, count):
                *before, (begin, _) = borders
                found |= {(*before, (begin, True)): None, (*before, (begin, False)): None}
    return [_parts(sums, borders, count) for borders in found]


def _ladder(curve: Curve) -> list[float]:
    """Scales between that of white noise and that of a constant."""
    least = white_noise(curve)
    if len(curve) <= FEW_POINTS:  # among few points, steps look like noise
        least = max(curve.quantum, least / FEW_POINTS)
    middle = median(curve.ys)
    most = max(noise_of([y - middle for y in curve.ys], curve.quantum).scale, 2 * least)
    step = (most / least) ** (1 / LADDER)
    return [least * step**number for number in range(LADDER)]


def _best(
    errors: Sequence[Sequence[tuple[float, float]]], scale: float, count: int
) -> list[Borders]:
    """The cheapest pieces at this noise, if the last is to be flat, and if it is to be a line."""
    weight = 1 / (2 * scale * scale)
    number = log(1 + 1 / scale) + log(count) / 2
    flat_cost, line_cost = number + log(count), 2 * number + log(count)
    total = [0.0]
    steps: list[tuple[int, bool]] = [(0, True)]
    lasts: list[tuple[int, bool]] = []
    for end in range(1, count + 1):
        flat_total = line_total = inf
        flat_begin = line_begin = 0
        for begin, ((flat, line), before) in enumerate(zip(errors[end], total, strict=True)):
            if before + weight * flat < flat_total:
                flat_total, flat_begin = before + weight * flat, begin
            if before + weight * line < line_total:
                line_total, line_begin = before + weight * line, begin
        lasts = [(flat_begin, True), (line_begin, False)]
        is_flat = flat_total + flat_cost <= line_total + line_cost
        total.append(min(flat_total + flat_cost, line_total + line_cost))
        steps.append(lasts[0] if is_flat else lasts[1])
    return [_traced(steps, last) for last in (*lasts, *_lasting(errors[-1], total, weight))]


def _lasting(
    row: Sequence[tuple[float, float]], total: Sequence[float], weight: float
) -> list[tuple[int, bool]]:
    """The best last pieces that have gone on for a while: what changed just now, nobody knows."""
    begins = range(len(row) - lasting_points(len(row)) + 1)
    flat = min(begins, key=lambda begin: total[begin] + weight * row[begin][0])
    begins = range(max(1, min(len(begins), len(row) - LEAST_TO_DECIDE + 1)))
    line = min(begins, key=lambda begin: total[begin] + weight * row[begin][1])
    return [(flat, True), (line, False)]


def lasting_points(count: int) -> int:
    """So many points make a last piece that counts as an answer."""
    return max(1, round(LASTING * count))


def _traced(steps: Sequence[tuple[int, bool]], last: tuple[int, bool]) -> Borders:
    borders = [last]
    while borders[-1][0] > 0:
        borders.append(steps[borders[-1][0]])
    return tuple(reversed(borders))


def _parts(sums: Sums, borders: Sequence[tuple[int, bool]], count: int) -> Partition:
    ends = [*(begin for begin, _ in borders[1:]), count]
    parts = []
    for (begin, is_flat), end in zip(borders, ends, strict=True):
        level = sums.middle + (sums.y[end] - sums.y[begin]) / (end - begin)
        foot, slope = (level, 0.0) if is_flat else sums.line(begin, end)
        parts.append(Part(begin, end, foot, slope, is_flat))
    return tuple(parts)


def residuals(curve: Curve, parts: Partition) -> list[float]:
    """What the pieces leave over, point by point."""
    return [
        curve.ys[i] - part.foot - part.slope * curve.xs[i]
        for part in parts
        for i in range(part.begin, part.end)
    ]


def jump_is_noise(curve: Curve, one: Part, other: Part, scale: float, factor: float) -> bool:
    """Whether two pieces meet at their border, as far as noise tells."""
    x = (curve.xs[other.begin] + curve.xs[other.begin - 1]) / 2
    doubt = scale * sqrt(4 / one.count + 4 / other.count)
    gap = abs(one.slope) + abs(other.slope)
    gap *= (curve.xs[other.begin] - curve.xs[other.begin - 1]) / 2
    return abs(other.y(x) - one.y(x)) <= factor * doubt + gap
