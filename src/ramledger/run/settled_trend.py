"""The trend of a series of levels: a robust line through its settled recent part, and its doubt.

What came before the settled part is cut off: imports, an earlier leak, a step. The cost is
bounded: long series are reduced to medians of neighbors before slopes are compared.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite, sqrt

from ramledger.run.slopes import median, theil_sen
from ramledger.units import KIB

LEAST_POINTS = 8
_MOST_POINTS = 800  # in all; older ones beyond that are reduced to medians
_TREND_POINTS = 64
_PART_POINTS = 40
_LEAST_GROWTH_BYTES = 256 * KIB  # the kernel's counters lag by about as much
_CHANGED = 4.0  # a part is over when what follows lies this many times its scatter away
_TAILS = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)
_MOST_CHANGES = 8
_DOUBT = 2.0  # standard errors

Points = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through the settled recent part of a series, and how far points lie above it."""

    bytes_per_second: float
    low_bytes_per_second: float
    high_bytes_per_second: float
    level_bytes: float  # of the line, at the end
    usual_peak_bytes: float  # above the line
    highest_peak_bytes: float
    settled: "SettledPart"
    is_growing: bool
    turns_at_bytes: float | None  # where a rise like this one fell back before

    @property
    def settled_bytes_per_second(self) -> float:
        """The slope, 0 where the scatter hides its sign."""
        is_clear = self.low_bytes_per_second > 0 or self.high_bytes_per_second < 0
        return self.bytes_per_second if is_clear else 0.0


@dataclass(frozen=True, slots=True)
class SettledPart:
    """The settled recent part: indexes where it began, and where the growth began that it slows."""

    began: int = 0
    growth_began: int = 0
    acceleration: float = 0.0  # bytes per second, per second


@dataclass(frozen=True, slots=True)
class _Line:
    """A slope with its standard error, and the level at time 0."""

    slope: float
    start: float
    error: float

    def at(self, t: float) -> float:
        return self.start + self.slope * t


def cleaned(times: Sequence[float], levels: Sequence[float]) -> Points:
    """Finite points in the order of time, one a moment; the last moment is time 0."""
    finite = [
        (float(t), float(level))
        for t, level in zip(times, levels, strict=True)
        if isfinite(t) and isfinite(level)
    ]
    end = max((t for t, _ in finite), default=0.0)
    points = {t - end: level for t, level in finite}
    moments = sorted(points)
    series = moments, [points[t] for t in moments]
    if len(moments) <= _MOST_POINTS:
        return series
    recent = len(moments) - _MOST_POINTS // 2
    older = _thinned(part_of(series, 0, recent), _MOST_POINTS // 2)
    return [*older[0], *series[0][recent:]], [*older[1], *series[1][recent:]]


def trend(series: Points) -> Trend | None:
    """The trend of a cleaned series; None with too few samples."""
    times = series[0]
    if len(times) < LEAST_POINTS:
        return None
    settled = _settled_part(series)
    part = part_of(series, settled.began)
    line = _fit(part, _TREND_POINTS)
    residuals = sorted(_off_line(part, line, 400))
    low, high = line.slope - _DOUBT * line.error, line.slope + _DOUBT * line.error
    grown_bytes = line.slope * (times[-1] - times[settled.began])
    is_growing = low > 0 and grown_bytes > _LEAST_GROWTH_BYTES
    return Trend(
        bytes_per_second=line.slope,
        low_bytes_per_second=low,
        high_bytes_per_second=high,
        level_bytes=line.start,
        usual_peak_bytes=max(0.0, residuals[int(0.95 * (len(residuals) - 1))]),
        highest_peak_bytes=max(0.0, residuals[-1]),
        settled=settled,
        is_growing=is_growing and _rises_for_good(part, line, grown_bytes),
        turns_at_bytes=_turning_level(series, settled.began, line.slope),
    )


def _rises_for_good(series: Points, line: _Line, grown_bytes: float) -> bool:
    """Whether the floor rises too, and the later half as well.

    What is freed and taken again, as in every generation, rises as often as it falls.
    """
    times, levels = series
    middle = bisect_left(times, (times[0] + times[-1]) / 2)
    floors = [_quantile(part, 0.05) for part in (levels[:middle], levels[middle:])]
    if floors[1] - floors[0] < grown_bytes / 8:
        return False
    late = _fit(part_of(series, middle), _PART_POINTS)
    return late.slope + _DOUBT * late.error > line.slope / 4


def _turning_level(series: Points, began: int, slope: float) -> float | None:
    """The level where this rise ends if it goes like an earlier one that fell back.

    None when there was none, or when it has gone on for twice as long.
    """
    times, levels = series
    if not began:
        return None
    peak = max(range(began), key=levels.__getitem__)
    fallen_bytes = levels[peak] - levels[began]
    grown_bytes = levels[-1] - levels[began]
    if fallen_bytes < grown_bytes / 4 or grown_bytes > 2 * fallen_bytes:
        return None
    trough = next((i for i in range(peak, -1, -1) if levels[i] <= levels[began]), 0)
    lasted = times[peak] - times[trough]
    if times[-1] - times[began] > 2 * lasted:
        return None
    return max(levels[peak], levels[began] + slope * lasted)


def part_of(series: Points, begin: int, end: int | None = None) -> Points:
    """The points from one index to another."""
    return series[0][begin:end], series[1][begin:end]


def _thinned(series: Points, most: int) -> Points:
    """At most that many points: medians of neighbors, so that a spike or a tooth counts little."""
    times, levels = series
    if len(times) <= most:
        return series
    borders = [len(times) * number // most for number in range(most + 1)]
    return (
        [median(times[begin:end]) for begin, end in pairwise(borders)],
        [median(levels[begin:end]) for begin, end in pairwise(borders)],
    )


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def _fit(series: Points, most_points: int) -> _Line:
    """A robust line through the medians of neighbors; a flat one through a single point."""
    times, levels = points = _thinned(series, most_points)
    found = theil_sen(times, levels, least_points=2)
    if found is None:
        return _Line(0.0, median(levels), inf)
    slope, start = found.per_step, found.start
    return _Line(slope, start, _slope_error(points, slope, start))


def _slope_error(points: Points, slope: float, start: float) -> float:
    """Standard error of the slope; neighbors that err alike count as fewer points."""
    times, levels = points
    residuals = [level - start - slope * t for t, level in zip(times, levels, strict=True)]
    squares = sum(residual * residual for residual in residuals)
    alike = sum(a * b for a, b in pairwise(residuals)) / squares if squares else 0.0
    alike = min(0.98, max(0.0, alike))
    independent = max(2.0, len(times) * (1 - alike) / (1 + alike))
    mean = sum(times) / len(times)
    spread = sqrt(sum((t - mean) * (t - mean) for t in times) / len(times))
    return _scatter(residuals) / (sqrt(independent) * spread) if spread else inf


def _scatter(residuals: Sequence[float]) -> float:
    """Their standard deviation, if they were normal, from the median of their sizes."""
    return 1.4826 * median([abs(residual) for residual in residuals])


def _off_line(series: Points, line: _Line, most_points: int) -> list[float]:
    """How far points lie above a line: single points, since medians would hide peaks."""
    step = max(1, len(series[0]) // most_points)
    pairs = zip(series[0][::step], series[1][::step], strict=True)
    return [level - line.at(t) for t, level in pairs]


# ---- the settled part -----------------------------------------------------------------------


def _settled_part(series: Points) -> SettledPart:
    """Cut off what came before the last change, as often as there is one."""
    settled = SettledPart()
    for _ in range(_MOST_CHANGES):
        part = part_of(series, settled.began)
        if not _has_changed(part):
            break
        settled = _after_break(part, settled)
    return settled


def _has_changed(series: Points) -> bool:
    """Whether the recent past left the line of what was before it, farther than usual."""
    times = series[0]
    span = times[-1] - times[0]
    for share in _TAILS:
        cut = bisect_left(times, times[-1] - span * share)
        if cut < LEAST_POINTS or len(times) - cut < LEAST_POINTS:
            continue
        old, new = part_of(series, 0, cut), part_of(series, cut)
        line = _fit(old, _PART_POINTS)
        usual = _scatter(_off_line(old, line, _PART_POINTS))
        away = median([abs(off) for off in _off_line(new, line, _PART_POINTS)])
        if away > max(_CHANGED * usual, _LEAST_GROWTH_BYTES):
            return True
        if share == _TAILS[0] and _has_another_slope(series, new):
            return True
    return False


def _has_another_slope(series: Points, later: Points) -> bool:
    whole, late = _fit(series, _PART_POINTS), _fit(later, _PART_POINTS)
    difference = abs(whole.slope - late.slope)
    matters = difference * (later[0][-1] - later[0][0]) > _LEAST_GROWTH_BYTES
    return matters and difference > _CHANGED * (whole.error + late.error)


def _after_break(series: Points, before: SettledPart) -> SettledPart:
    """The part that begins where two lines fit best."""
    times = series[0]
    points = _thinned(series, _TREND_POINTS)
    at = bisect_left(times, points[0][_two_lines(points)])
    at = min(max(at, 1), len(times) - LEAST_POINTS)
    old = _fit(part_of(series, 0, at), _PART_POINTS)
    new = _fit(part_of(series, at), _PART_POINTS)
    jump = abs(new.at(times[at]) - old.at(times[at]))
    is_bend = min(old.slope, new.slope) > 0 and jump < old.slope * (times[at] - times[0]) / 4
    began = before.began + at
    if is_bend and new.slope < old.slope:
        return SettledPart(began, before.growth_began)
    if is_bend and old.slope > new.slope / 5:
        return SettledPart(began, began, 2 * (new.slope - old.slope) / (times[-1] - times[0]))
    return SettledPart(began, began)


def _two_lines(points: Points) -> int:
    """The index that parts the points so that two lines of least squares leave the least."""
    count = len(points[0])
    forward = _line_errors(points)
    backward = _line_errors((points[0][::-1], points[1][::-1]))
    least = min(5, count // 3)
    return min(range(least, count - least), key=lambda at: forward[at] + backward[count - at])


def _line_errors(points: Points) -> list[float]:
    """For each number of first points, the squared error that the best line through them leaves."""
    times, levels = points
    mean_t = mean_y = tt = ty = yy = 0.0
    errors = [0.0]
    for number, (t, y) in enumerate(zip(times, levels, strict=True), 1):
        dt, dy = t - mean_t, y - mean_y
        mean_t += dt / number
        mean_y += dy / number
        tt += dt * (t - mean_t)
        ty += dt * (y - mean_y)
        yy += dy * (y - mean_y)
        errors.append(max(0.0, yy - ty * ty / tt) if tt > 0 else yy)
    return errors
