"""Slopes of levels: the only estimator there is (Theil and Sen), with its interval; onsets.

Everything is rank-based or uses medians: one checkpoint spike or one garbage collection must not
make a leak, nor hide one. Standard library only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

ONSET_POINTS = 90
_FLAT = 0.25  # of a step: less is no rise yet
MAX_POINTS = 240  # Theil-Sen compares all pairs; longer series are thinned first


@dataclass(frozen=True, slots=True)
class Slope:
    """Theil-Sen slope with Sen's confidence interval, and the noise around the line."""

    per_step: float
    low: float
    high: float
    noise: float
    start: float  # the level of the line at 0

    @property
    def is_rising(self) -> bool:
        """Whether the interval lies above zero."""
        return self.low > 0


def thinned(xs: Sequence[float], ys: Sequence[float]) -> tuple[list[float], list[float]]:
    """At most MAX_POINTS points, evenly chosen, the last one always kept."""
    if len(xs) <= MAX_POINTS:
        return list(xs), list(ys)
    step = len(xs) / MAX_POINTS
    chosen = sorted({min(len(xs) - 1, round(i * step)) for i in range(MAX_POINTS)} | {len(xs) - 1})
    return [xs[i] for i in chosen], [ys[i] for i in chosen]


def median(values: Iterable[float]) -> float:
    """The middle one; for the many short lists here `statistics` is several times slower."""
    return _middle(sorted(values))


def _middle(ordered: Sequence[float]) -> float:
    at = len(ordered) // 2
    return ordered[at] if len(ordered) % 2 else (ordered[at - 1] + ordered[at]) / 2


def theil_sen(
    xs: Sequence[float], ys: Sequence[float], z: float = 1.96, *, least_points: int = 3
) -> Slope | None:
    """The median of the slopes between all pairs, which a quarter of outliers does not move.

    None with fewer points, or where no two differ in x.
    """
    xs, ys = thinned(xs, ys)
    n = len(xs)
    slopes = sorted(
        (later_y - y) / (later_x - x)
        for i, (x, y) in enumerate(zip(xs, ys, strict=True), 1)
        for later_x, later_y in zip(xs[i:], ys[i:], strict=True)
        if later_x != x
    )
    if n < least_points or not slopes:
        return None
    middle = _middle(slopes)
    spread = z * sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = slopes[max(0, int((len(slopes) - spread) / 2))]
    high = slopes[min(len(slopes) - 1, int((len(slopes) + spread) / 2))]
    offset = median(y - middle * x for x, y in zip(xs, ys, strict=True))
    residuals = [abs(y - middle * x - offset) for x, y in zip(xs, ys, strict=True)]
    return Slope(middle, low, high, 1.4826 * median(residuals), offset)


def floor_of(ys: Sequence[float]) -> list[float]:
    """The least of each point and all later ones: what never comes back down."""
    result = list(ys)
    for i in range(len(result) - 2, -1, -1):
        result[i] = min(result[i], result[i + 1])
    return result


def onset_index(xs: Sequence[float], ys: Sequence[float]) -> int:
    """Where a flat series begins to rise: the best two-piece fit, flat then linear."""
    n = len(xs)
    if n < 6:
        return 0
    if n > ONSET_POINTS:
        return _onset_in_long(xs, ys)
    best, best_error = 0, float("inf")
    for k in range(n - 3):
        level = median(ys[: k + 1])
        slope = theil_sen(xs[k:], ys[k:])
        if slope is None:
            continue
        error = sum(abs(y - level) for y in ys[:k])
        error += sum(
            abs(y - (level + slope.per_step * (x - xs[k])))
            for x, y in zip(xs[k:], ys[k:], strict=True)
        )
        if error < best_error * 0.98:  # an earlier onset unless a later one is clearly better
            best, best_error = k, error
    return _last_flat(xs, ys, best)


def _last_flat(xs: Sequence[float], ys: Sequence[float], k: int) -> int:
    """From there on to the last point before it rises: a jump at first moves the line's foot."""
    slope = theil_sen(xs[k:], ys[k:]) if k else None
    if slope is None or slope.per_step <= 0:
        return k
    level = median(ys[: k + 1])
    while k + 4 < len(xs) and ys[k + 1] <= level + _FLAT * slope.per_step * (xs[k + 1] - xs[k]):
        k += 1
    return k


def _onset_in_long(xs: Sequence[float], ys: Sequence[float]) -> int:
    """The onset among some of the points, then where the line since then meets the level before."""
    n = len(xs)
    chosen = [round(i * (n - 1) / (ONSET_POINTS - 1)) for i in range(ONSET_POINTS)]
    coarse = chosen[onset_index([xs[i] for i in chosen], [ys[i] for i in chosen])]
    rise = theil_sen(xs[coarse:], ys[coarse:])
    if coarse == 0 or rise is None or rise.per_step <= 0:
        return coarse
    level = median(ys[:coarse])
    met = median(
        x - (y - level) / rise.per_step for x, y in zip(xs[coarse:], ys[coarse:], strict=True)
    )
    return min(range(n), key=lambda i: abs(xs[i] - met))


def is_saturating(xs: Sequence[float], ys: Sequence[float]) -> bool:
    """Whether growth slows down: the last third rises at under a third of the first's pace."""
    n = len(xs)
    if n < 9:
        return False
    third = n // 3
    first, last = theil_sen(xs[:third], ys[:third]), theil_sen(xs[-third:], ys[-third:])
    if first is None or last is None or first.per_step <= 0:
        return False
    return last.per_step < first.per_step / 3
