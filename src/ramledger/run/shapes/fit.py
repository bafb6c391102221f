"""READ FIRST. What the estimator says of one series: a shape, its numbers, its doubt, its future.

Frozen data without behavior beyond reading; `estimate.py` makes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, inf, log1p

Points = Sequence[tuple[float, float]]  # (at, value): `at` in iterations or seconds
Interval = tuple[float, float]  # 90 %


class Shape(StrEnum):
    """What a series does, read at its end."""

    CONSTANT = "constant"
    STEP = "step"  # changed its level, and stays
    LINEAR = "linear"  # rises or falls evenly since an onset
    FILLING = "filling"  # rose and is full, or rises to a capacity, or slows down
    SAWTOOTH = "sawtooth"  # rises and falls back; what remains after a fall is flat


class Bend(StrEnum):
    """How the rate of a piece changes while it lasts."""

    STRAIGHT = "straight"
    ENDING = "ending"  # exponentially: there is an end
    SLOWING = "slowing"  # as 1 / time: no end, but ever less


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of the fitted model; `rate` is that at its start."""

    start: float
    stop: float
    level: float  # at the start
    rate: float
    bend: Bend = Bend.STRAIGHT
    time_constant: float = 0.0  # of a bend

    def value(self, at: float) -> float:
        passed = at - self.start
        if self.bend is Bend.STRAIGHT:
            return self.level + self.rate * passed
        share = max(0.0, passed / self.time_constant)
        grown = 1 - exp(-share) if self.bend is Bend.ENDING else log1p(share)
        return self.level + self.rate * self.time_constant * grown

    def rate_at(self, at: float) -> float:
        if self.bend is Bend.STRAIGHT:
            return self.rate
        share = max(0.0, (at - self.start) / self.time_constant)
        return self.rate * (exp(-share) if self.bend is Bend.ENDING else 1 / (1 + share))

    @property
    def limit(self) -> float | None:
        """Where an ending bend ends."""
        if self.bend is not Bend.ENDING:
            return None
        return self.level + self.rate * self.time_constant


@dataclass(frozen=True, slots=True)
class Teeth:
    """Rises that fall back."""

    count: int
    period: float  # in units of `at`, the median
    height: float  # from what remains after a fall to the peak, the median


@dataclass(frozen=True, slots=True)
class Fit:
    """One series, judged. Rates are values per unit of `at`, at the end of the series."""

    shape: Shape
    points: int
    start: float
    stop: float
    level: float  # at the end, without peaks
    rate: float
    rate_interval: Interval
    onset: float | None  # of the rise that is on, or of the last step
    onset_interval: Interval | None
    capacity: float | None  # where filling ends: known, reached or estimated
    capacity_interval: Interval | None
    residual_scale: float
    below: float  # how far 5 % of the points lie below the model, at least 0
    above: float  # how far the highest points lie above it
    is_rising_at_end: bool
    enough: bool  # the series can tell rising from not rising
    needs_more: int  # points until it probably can; 0 where it can
    needs_more_at: float  # the same in units of `at`
    nats: float  # evidence for its answer (rising or not) over the opposite; e**nats are the odds
    pieces: tuple[Piece, ...]
    teeth: Teeth | None = None

    def predict(self, at: float) -> tuple[float, float, float]:
        """Low, middle and high value: what is constant stays, filling ends, linear goes on."""
        if not self.pieces:
            return -inf, 0.0, inf
        middle = self._model(at)
        passed = max(0.0, at - self.stop)
        low = middle - self.below
        high = middle + self.above
        if self.shape is Shape.FILLING and self.capacity is not None:
            return self._filling(passed, low, middle, high, self.capacity)
        slow, fast = (rate - self.rate for rate in self.rate_interval)
        return low + _less(slow, passed), middle, high - _less(-fast, passed)

    def _filling(
        self, passed: float, low: float, middle: float, high: float, capacity: float
    ) -> tuple[float, float, float]:
        """All three stop at the capacity, the bounds at those of its interval."""
        least, most = self.capacity_interval or (capacity, capacity)
        slow, fast = (rate - self.rate for rate in self.rate_interval)
        if passed:
            middle = min(middle, max(capacity, self.level))
        low = min(low + _less(slow, passed), max(least, self.level - self.below))
        high = min(high - _less(-fast, passed), max(most, self.level) + self.above)
        return min(low, middle), middle, max(high, middle)

    def _model(self, at: float) -> float:
        if at > self.stop and self.pieces[-1].bend is Bend.STRAIGHT:
            goes_on = self.shape is not Shape.SAWTOOTH
            return self.level + (self.rate * (at - self.stop) if goes_on else 0.0)
        for piece in reversed(self.pieces):
            if at >= piece.start:
                return piece.value(at)
        return self.pieces[0].value(self.pieces[0].start)


def _less(rate: float, passed: float) -> float:
    """What a rate below 0 takes away; nothing where no time passed, though it may be infinite."""
    return min(0.0, rate) * passed if passed else 0.0
