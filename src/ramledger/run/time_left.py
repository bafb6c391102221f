"""How long until a limit is reached, with an interval: the sum of the futures of a level's parts.

Buffers that fill end at their capacity, what is constant stays, a line goes on. All of it is read
off the one estimator of a series.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from ramledger.run.shapes import Fit, Points, Shape, fit
from ramledger.run.shapes.filled_in import level_at
from ramledger.units import MIB, format_bytes

TOO_FEW = "too few samples yet"
UNCLEAR = "not clear yet whether it grows"
NOT_GROWING = "not growing"
FALLS_BACK = "not growing: it rises and falls back"
REACHED = "the limit is reached"

LEAST_POINTS = 8
_QUANTUM_BYTES = float(MIB)  # what a level moves by without meaning, as in the growth table
_FARTHEST_SECONDS = 3e9  # a hundred years: what lies beyond is never
_STEPS = 80  # of halving: down to a millisecond
_LATE_POINTS = 64  # the newest ones are dense, and may have left the fit of a long past
_BEYOND = 0.05  # of what the past moved by: what rises less above it may be one more tooth
_FEW_SHARE = 0.01  # of the rate: rounding


@dataclass(frozen=True, slots=True)
class Filling:
    """An account on its way to a known capacity, as snapshots saw it; times in seconds."""

    account: str
    points: Points
    capacity_bytes: float


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Seconds until the limit, with an interval; None means: not in sight. `reason` says why.

    A `low_seconds` without `high_seconds` means: that long at least.
    """

    seconds_left: float | None
    low_seconds: float | None
    high_seconds: float | None
    reason: str
    bytes_per_second: float = 0.0
    settles_at_bytes: int | None = None

    def later(self, seconds: float) -> "TimeLeft":
        """The same, so much later."""
        return replace(
            self,
            seconds_left=_less(self.seconds_left, seconds),
            low_seconds=_less(self.low_seconds, seconds),
            high_seconds=_less(self.high_seconds, seconds),
        )


def _less(left: float | None, passed: float) -> float | None:
    return None if left is None else max(0.0, left - passed)


def time_left(points: Points, limit_bytes: float, fillings: Sequence[Filling] = ()) -> TimeLeft:
    """When a level reaches the limit, judged from its past; (seconds, bytes) in any order."""
    known = sorted((t, y) for t, y in points if isfinite(t) and isfinite(y))
    is_reached = bool(known) and known[-1][1] >= limit_bytes
    if len({t for t, _ in known}) < LEAST_POINTS:
        return _reached(0.0) if is_reached else TimeLeft(None, None, None, TOO_FEW)
    level = _Level(known, fillings)
    if is_reached:
        return _reached(level.rate)
    if not level.is_growing:
        return TimeLeft(None, None, None, level.why_not(limit_bytes), level.rate)
    seconds = level.reaches(limit_bytes, 1)
    if seconds is None:
        return _settles(level) if level.is_clear else TimeLeft(None, None, None, UNCLEAR)
    low, high = level.reaches(limit_bytes, 2), level.reaches(limit_bytes, 0)
    return TimeLeft(seconds, min(low or 0.0, seconds), high, level.reason, level.rate)


def is_rising(points: Points) -> bool:
    """Whether a level rises to its end, clearly and in a line."""
    found = _newest(sorted(points))
    return len(points) >= LEAST_POINTS and found.is_rising_at_end and found.rate > 0


def _reached(rate: float) -> TimeLeft:
    return TimeLeft(0.0, 0.0, 0.0, REACHED, rate)


def _settles(level: "_Level") -> TimeLeft:
    end = round(level.at(_FARTHEST_SECONDS)[1])
    how = "will plateau at" if level.rows else "slowing down: levels off near"
    reason = f"{how} {format_bytes(end)}, below the limit"
    return TimeLeft(None, None, None, reason, level.rate, end)


def _newest(points: Points) -> Fit:
    """The fit of all; or of the newest ones alone, where they rise above all that was before."""
    whole = fit(points, quantum=_QUANTUM_BYTES)
    older, newest = points[:-_LATE_POINTS], points[-_LATE_POINTS:]
    if whole.is_rising_at_end or len(older) < LEAST_POINTS:
        return whole
    values = [y for _, y in older]
    beyond = max(_QUANTUM_BYTES, _BEYOND * (max(values) - min(values)))
    at, value = newest[-1]
    if value <= max(whole.predict(at)[1], max(values)) + beyond:
        return whole
    late = fit(newest, quantum=_QUANTUM_BYTES)
    return late if late.is_rising_at_end and late.shape is Shape.LINEAR else whole


class _Level:
    """A level as buffers that fill and the rest, each with its own future."""

    def __init__(self, points: Points, fillings: Sequence[Filling]) -> None:
        self._now = points[-1][0]
        all_rows = [_Row(one, points) for one in fillings if one.points]
        rest = [(t, y - sum(row.held(t) for row in all_rows)) for t, y in points]
        self._rest = _newest(rest)
        self._waiting = sum(row.remaining for row in all_rows)
        self.rows = [row for row in all_rows if row.is_filling]
        self._still = sum(row.held(self._now) for row in all_rows if not row.is_filling)
        # what rises and falls back is at its peak once in every tooth
        self._peak = 0.0 if self._rest.teeth is None else self._rest.teeth.height

    @property
    def rest_rate(self) -> float:
        return 0.0 if self._rest.shape is Shape.SAWTOOTH else self._rest.rate

    @property
    def rate(self) -> float:
        return self.rest_rate + sum(row.rate for row in self.rows)

    @property
    def is_growing(self) -> bool:
        rises = self._rest.is_rising_at_end and self._rest.rate > 0
        return (rises or bool(self.rows)) and self.rate > 0

    @property
    def is_clear(self) -> bool:
        """Whether it is known what all but the buffers do."""
        return self._rest.enough

    def why_not(self, limit_bytes: float) -> str:
        """Buffers may not grow now and yet be too large once they are full."""
        full = self.at(0.0)[1] + self._waiting
        if self._waiting and full >= limit_bytes:
            return f"{NOT_GROWING} now; full buffers would need {format_bytes(round(full))}"
        if self._rest.shape is Shape.SAWTOOTH:
            return FALLS_BACK
        return NOT_GROWING if self._rest.enough else UNCLEAR

    @property
    def reason(self) -> str:
        text = f"growing {_per_minute(self.rate)}"
        filling = sum(row.rate for row in self.rows)
        if self.rows and self.rest_rate > _FEW_SHARE * filling:
            names = ", ".join(row.account for row in self.rows[:3])
            return f"{text}, {_per_minute(filling)} of it fills {names}"
        if self.rows:
            return f"{text}: {', '.join(row.account for row in self.rows[:3])} fills"
        return f"{text}, slowing down" if self._rest.shape is Shape.FILLING else text

    def at(self, seconds: float) -> tuple[float, float, float]:
        """Low, middle and high, so many seconds from now."""
        low, middle, high = self._rest.predict(self._now + seconds)
        low, middle = low + self._peak, middle + self._peak
        for row in self.rows:
            size = row.held(self._now + seconds)
            low, middle, high = low + size, middle + size, high + size
        return low + self._still, middle + self._still, max(high, middle) + self._still

    def reaches(self, limit_bytes: float, which: int) -> float | None:
        """Seconds until the low (0), middle (1) or high (2) estimate is at the limit."""
        return _first(lambda seconds: self.at(seconds)[which] >= limit_bytes)


def _first(is_so: Callable[[float], bool]) -> float | None:
    """The first moment from which on something is so; None if it never is."""
    if is_so(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not is_so(high):
        low, high = high, 2 * high
        if high > _FARTHEST_SECONDS:
            return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_so(middle) else (middle, high)
    return high


class _Row:
    """A filling account: straight between snapshots, by its fit after the last one."""

    def __init__(self, filling: Filling, level: Points) -> None:
        self.account = filling.account
        self._capacity = filling.capacity_bytes
        self._points = sorted(filling.points)
        (seen_at, size), (start, low) = self._points[0], level[0]
        if len(self._points) == 1 and seen_at > start:
            # seen once: it may have grown by as much as the level did
            grown = max(0.0, level_at(level, seen_at) - low)
            self._points.insert(0, (start, max(0.0, size - grown)))
        self._fit = fit(self._points, capacity=self._capacity)

    @property
    def rate(self) -> float:
        return max(0.0, self._fit.rate)

    @property
    def remaining(self) -> float:
        return max(0.0, self._capacity - self._points[-1][1])

    @property
    def is_filling(self) -> bool:
        return self.remaining > 0 and self.rate > 0

    def held(self, t: float) -> float:
        end, last = self._points[-1]
        if t <= end:
            return level_at(self._points, t)
        return max(last, min(self._capacity, last + self.rate * (t - end)))


def _per_minute(bytes_per_second: float) -> str:
    return f"{format_bytes(round(bytes_per_second * 60))}/min"
