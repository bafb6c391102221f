"""How long until a limit is reached: a robust trend of the settled recent part, with an interval.

Buffers that fill are known to stop: their share of the growth ends at their capacity.
Pure functions of times and levels, cheap enough to be called with every sample.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from ramledger.run.settled_trend import LEAST_POINTS, Points, Trend, cleaned, part_of, trend
from ramledger.run.slopes import median
from ramledger.units import format_bytes

TOO_FEW = "too few samples yet"
NOT_GROWING = "not growing"
FALLS_BACK = "not growing: it rises and falls back"
REACHED = "the limit is reached"

_EXPLAINED = 0.9  # of the growth is filling buffers: rates have an error of some percent
_SAFETY = 2  # times the growth to come must fit, since it is only estimated
_SLOWING = 0.8  # growth per stretch of time falls to this share, or less


@dataclass(frozen=True, slots=True)
class Plateau:
    """A filling buffer: it stops at `final_bytes`.

    Without `bytes_per_second` it is taken to have filled evenly since the series began.
    """

    account: str
    now_bytes: int
    final_bytes: int
    bytes_per_second: float | None = None

    @property
    def remaining_bytes(self) -> int:
        return max(0, self.final_bytes - self.now_bytes)

    @property
    def is_filling(self) -> bool:
        rate = self.now_bytes if self.bytes_per_second is None else self.bytes_per_second
        return self.remaining_bytes > 0 and rate > 0


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds until the limit, with an interval; None means: not in sight. `reason` says why.

    A `low_seconds` without `high_seconds` means: that long at least.
    """

    seconds_left: float | None
    low_seconds: float | None
    high_seconds: float | None
    reason: str
    bytes_per_second: float = 0.0
    settles_at_bytes: int | None = None


def forecast(
    times: Sequence[float],
    levels: Sequence[float],
    limit_bytes: int,
    *,
    plateaus: Sequence[Plateau] = (),
) -> Forecast:
    """When a level reaches the limit, judged from its past; times in seconds, oldest first."""
    series = cleaned(times, levels)
    found = trend(series)
    if series[1] and series[1][-1] >= limit_bytes:
        return Forecast(0.0, 0.0, 0.0, REACHED, found.settled_bytes_per_second if found else 0.0)
    if found is None:
        return Forecast(None, None, None, TOO_FEW)
    if not found.is_growing:
        reason = _not_growing(found, limit_bytes, plateaus)
        return Forecast(None, None, None, reason, found.settled_bytes_per_second)
    if found.turns_at_bytes is not None and found.turns_at_bytes < limit_bytes:
        return Forecast(None, None, None, FALLS_BACK, found.bytes_per_second)
    filling = [plateau for plateau in plateaus if plateau.is_filling]
    if filling:
        return _with_plateaus(series, found, limit_bytes, filling)
    more_bytes = _growth_to_come(series, found)
    if more_bytes is not None and _SAFETY * more_bytes < _room(found, limit_bytes):
        settles_at = round(found.level_bytes + more_bytes)
        reason = f"slowing down: levels off near {format_bytes(settles_at)}, below the limit"
        return Forecast(None, None, None, reason, found.bytes_per_second, settles_at)
    return _straight(found, limit_bytes)


def _room(trend: Trend, limit_bytes: int) -> float:
    """What is left above the usual peaks."""
    return limit_bytes - trend.level_bytes - trend.usual_peak_bytes


def _straight(trend: Trend, limit_bytes: int) -> Forecast:
    """Growth stays as fast as now; where it bends, the interval is open on that side."""
    room = limit_bytes - trend.level_bytes
    mid = max(0.0, _room(trend, limit_bytes)) / trend.bytes_per_second
    low = max(0.0, room - trend.highest_peak_bytes) / trend.high_bytes_per_second
    high: float | None = max(0.0, room) / trend.low_bytes_per_second
    reason = f"growing {_per_minute(trend.bytes_per_second)}"
    if trend.settled.acceleration:
        low = min(low, _seconds_speeding_up(room, trend))
        reason += ", speeding up"
    elif trend.settled.growth_began < trend.settled.began:
        high = None
        reason += ", slowing down"
    return Forecast(mid, low, high, reason, trend.bytes_per_second)


def _seconds_speeding_up(room: float, trend: Trend) -> float:
    """At constant acceleration; this form stays exact where the acceleration is small."""
    speed, more = trend.bytes_per_second, trend.settled.acceleration
    return 2 * max(0.0, room) / (speed + sqrt(speed * speed + 2 * more * max(0.0, room)))


def _per_minute(bytes_per_second: float) -> str:
    return f"{format_bytes(round(bytes_per_second * 60))}/min"


def _not_growing(trend: Trend, limit_bytes: int, plateaus: Sequence[Plateau]) -> str:
    """Buffers may not grow now and yet be too large once they are full."""
    remaining = sum(plateau.remaining_bytes for plateau in plateaus)
    full_bytes = trend.level_bytes + remaining
    if remaining and full_bytes >= limit_bytes:
        return f"{NOT_GROWING} now; full buffers would need {format_bytes(round(full_bytes))}"
    return NOT_GROWING


# ---- filling buffers ----------------------------------------------------------------------


def _with_plateaus(
    series: Points, trend: Trend, limit_bytes: int, plateaus: Sequence[Plateau]
) -> Forecast:
    """The buffers' share of the growth ends when they are full; the rest never ends."""
    growth = trend.bytes_per_second
    fills = _fills(growth, plateaus, -series[0][0])
    rate = sum(bytes_per_second for bytes_per_second, _ in fills)
    rest = growth - rate
    room = limit_bytes - trend.level_bytes
    if rate >= _EXPLAINED * growth or trend.low_bytes_per_second <= rate:
        settles_at = trend.level_bytes + sum(remainder for _, remainder in fills)
        if settles_at + trend.usual_peak_bytes < limit_bytes:
            reason = f"will plateau at {format_bytes(round(settles_at))}, below the limit"
            return Forecast(None, None, None, reason, growth, round(settles_at))
        rest = 0.0
    low_rest = max(rest, trend.high_bytes_per_second - rate)
    high_rest = max(0.0, min(rest, trend.low_bytes_per_second - rate))
    mid = _seconds_until(room - trend.usual_peak_bytes, rest, fills)
    low = _seconds_until(room - trend.highest_peak_bytes, low_rest, fills)
    high = _seconds_until(room, high_rest, fills)
    names = ", ".join(plateau.account for plateau in plateaus[:3])
    reason = f"growing {_per_minute(growth)}, {_per_minute(rate)} of it fills {names}"
    return Forecast(mid, low, high, reason, growth)


def _fills(
    growth: float, plateaus: Sequence[Plateau], span_seconds: float
) -> list[tuple[float, float]]:
    """Rate and remainder of each buffer; together they are not faster than the whole."""
    rates = [
        plateau.now_bytes / span_seconds
        if plateau.bytes_per_second is None
        else plateau.bytes_per_second
        for plateau in plateaus
    ]
    scale = min(1.0, growth / sum(rates))
    pairs = zip(rates, plateaus, strict=True)
    return [(rate * scale, float(plateau.remaining_bytes)) for rate, plateau in pairs]


def _seconds_until(room: float, rest: float, fills: Sequence[tuple[float, float]]) -> float | None:
    """When `room` is used up by steady growth and by buffers that stop; None if never."""
    if room <= 0:
        return 0.0
    passed = 0.0
    speed = rest + sum(rate for rate, _ in fills)
    for rate, remainder in sorted(fills, key=lambda fill: fill[1] / fill[0]):
        until_full = remainder / rate - passed
        if speed * until_full >= room:
            return passed + room / speed
        room -= speed * until_full
        passed += until_full
        speed -= rate
    return passed + room / rest if rest > 0 else None


# ---- growth that slows down -----------------------------------------------------------------


def _growth_to_come(series: Points, trend: Trend) -> float | None:
    """Bytes until slowing growth ends; all of it and its later half must agree.

    A slower but straight growth, or one like a square root, has no end: its later half does not
    slow down enough.
    """
    times, levels = part_of(series, trend.settled.growth_began)
    middle = bisect_left(times, (times[0] + times[-1]) / 2)
    whole = _remaining_growth((times, levels))
    later = _remaining_growth((times[middle:], levels[middle:]))
    if whole is None or later is None or max(whole, later) > 2 * min(whole, later):
        return None
    return max(whole, later)


def _remaining_growth(series: Points) -> float | None:
    """What a geometric series with these two steps still adds (Aitken's rule); None if unclear."""
    times, levels = series
    if len(times) < 3 * LEAST_POINTS:
        return None
    span = times[-1] - times[0]
    borders = [bisect_left(times, times[0] + span * part / 3) for part in range(3)]
    parts = [levels[begin:end] for begin, end in pairwise([*borders, len(times)])]
    if min(map(len, parts)) < LEAST_POINTS:
        return None
    first, second, third = map(median, parts)
    if second <= first or third <= second or third - second > _SLOWING * (second - first):
        return None
    ratio = (third - second) / (second - first)
    return (third - second) * ratio / (1 - ratio)
