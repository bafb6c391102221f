"""Which model describes a series most briefly: straight pieces, or pieces that end in a bend.

Two answers are compared: the series goes on rising in a line, or it does not. The difference of
their description lengths is the evidence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, isfinite, log, log1p

from ramledger.run.shapes.code_length import Noise, noise_of, parameter_nats
from ramledger.run.shapes.constants import (
    CLEAR_NATS,
    FINER,
    JOINED,
    LEAST_FOR_CORRELATION,
    LEAST_TO_DECIDE,
    ONSET_NATS,
    SLOWING_CONSTANTS,
    TIME_CONSTANTS,
)
from ramledger.run.shapes.curve import Curve
from ramledger.run.shapes.fit import Bend
from ramledger.run.shapes.pieces import (
    Part,
    Partition,
    jump_is_noise,
    lasting_points,
    partitions,
    points_of_last_rate,
    residuals,
)
from ramledger.run.shapes.slope import slope_of

_CONSTANTS = {Bend.ENDING: TIME_CONSTANTS, Bend.SLOWING: SLOWING_CONSTANTS}


@dataclass(frozen=True, slots=True)
class Tail:
    """A last piece that slows down: level at its begin, growth at full, time constant in x."""

    begin: int
    level: float
    grown: float
    time_constant: float
    bend: Bend

    def share(self, x: float) -> float:
        """Of `grown`, after x."""
        passed = max(0.0, x) / self.time_constant
        return 1 - exp(-passed) if self.bend is Bend.ENDING else log1p(passed)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model with its description length."""

    parts: Partition  # before the tail, if there is one
    tail: Tail | None
    noise: Noise
    nats: float
    goes_on: bool  # it rises in a line at the end, by more than the noise floor

    @property
    def begin(self) -> int:
        """Of the last piece."""
        return self.parts[-1].begin if self.tail is None else self.tail.begin


@dataclass(frozen=True, slots=True)
class Choice:
    """The best model, and by how many nats it beats the best of the opposite answer."""

    best: Candidate
    nats: float
    limits: tuple[float, float] | None  # of a tail that ends: those of nearly as good ones


def choose(curve: Curve) -> Choice:
    """The most brief of all candidates."""
    found = [_straight(curve, parts) for parts in partitions(curve)]
    first = min(found, key=lambda one: one.nats)
    bent = list(_bent(curve, first))
    best = min([first, *bent], key=lambda one: one.nats)
    return Choice(best, _evidence(curve, best, [*found, *bent]), _limits(best, bent))


def _evidence(curve: Curve, best: Candidate, found: Sequence[Candidate]) -> float:
    """Against the opposite answer; a slope of nothing takes one more number than none at all."""
    longest = len(curve) - lasting_points(len(curve))
    opposite = [one.nats for one in found if one.goes_on != best.goes_on and one.begin <= longest]
    if not best.goes_on:
        flats = [one for one in found if not one.goes_on and one.begin <= longest]
        opposite.append(min(_nats_of_a_rise(curve, one) for one in flats))
    return min(opposite) - best.nats if opposite else inf


def _nats_of_a_rise(curve: Curve, flat: Candidate) -> float:
    """With one more number, a slope that is just beyond the noise floor, and what it fits worse."""
    xs, ys = curve.xs[flat.begin :], curve.ys[flat.begin :]
    found = slope_of(xs, ys, curve.quantum, flat.noise)
    least = curve.quantum / (xs[-1] - xs[0]) if xs[-1] > xs[0] else inf
    number = parameter_nats(1.0, flat.noise, curve.quantum)
    if not isfinite(found.error) or not isfinite(least):
        return flat.nats + number
    off = max(0.0, least - found.slope) / found.error
    return flat.nats + number + off * off / 2


def _straight(curve: Curve, parts: Partition) -> Candidate:
    noise = noise_of(residuals(curve, parts), curve.quantum)
    last = parts[-1]
    risen = last.slope * (curve.xs[-1] - curve.xs[last.begin])
    nats = noise.nats + _parts_nats(curve, parts, noise)
    goes_on = risen > curve.quantum and points_of_last_rate(parts) >= LEAST_TO_DECIDE
    return Candidate(parts, None, noise, nats, goes_on)


def _parts_nats(curve: Curve, parts: Partition, noise: Noise) -> float:
    """One number a flat piece, two a line, one less where it begins where the last one ended."""
    number = parameter_nats(1.0, noise, curve.quantum)
    numbers = sum(1 if part.is_flat else 2 for part in parts)
    for one, other in pairwise(parts):
        if not (one.is_flat and other.is_flat) and min(one.count, other.count) > 2:
            numbers -= jump_is_noise(curve, one, other, noise.scale, JOINED)
    return numbers * number + (len(parts) - 1) * log(len(curve))


def _bent(curve: Curve, first: Candidate) -> Iterator[Candidate]:
    """The pieces of the best straight model up to some border, then a bend."""
    for index, part in enumerate(first.parts):
        if len(curve) - part.begin < LEAST_FOR_CORRELATION:
            return
        before = first.parts[:index]
        for bend, constants in _CONSTANTS.items():
            found = [_with_tail(curve, before, part.begin, bend, one) for one in constants]
            yield from found
            for step in FINER:
                best = min(found, key=lambda one: one.nats)
                if best.tail is None or best.nats > first.nats + CLEAR_NATS * 10:
                    break
                span = curve.xs[-1] - curve.xs[part.begin]
                near = best.tail.time_constant / span
                finer = [c for c in (near * step, near / step) if c <= constants[-1]]
                found = [best, *(_with_tail(curve, before, part.begin, bend, c) for c in finer)]
                yield from found[1:]


def _with_tail(
    curve: Curve, before: Sequence[Part], begin: int, bend: Bend, constant: float
) -> Candidate:
    start, span = curve.xs[begin], curve.xs[-1] - curve.xs[begin]
    xs, ys = curve.xs[begin:], curve.ys[begin:]
    shape = Tail(begin, 0.0, 1.0, constant * span, bend)
    shares = [shape.share(x - start) for x in xs]
    level, grown = _line(shares, ys)
    tail = Tail(begin, level, grown, constant * span, bend)
    parts = tuple(before)
    left = residuals(curve, parts)
    left += [y - level - grown * share for y, share in zip(ys, shares, strict=True)]
    noise = noise_of(left, curve.quantum)
    numbers = 3 * parameter_nats(1.0, noise, curve.quantum)
    numbers += log(len(curve)) if parts else 0.0
    nats = noise.nats + numbers + (_parts_nats(curve, parts, noise) if parts else 0.0)
    return Candidate(parts, tail, noise, nats, goes_on=False)


def _line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Level at 0 and slope, by least squares."""
    count = len(xs)
    x, y = sum(xs) / count, sum(ys) / count
    xx = sum((one - x) * (one - x) for one in xs)
    xy = sum((one - x) * (other - y) for one, other in zip(xs, ys, strict=True))
    slope = xy / xx if xx > 0 else 0.0
    return y - slope * x, slope


def _limits(best: Candidate, bent: Sequence[Candidate]) -> tuple[float, float] | None:
    if best.tail is None or best.tail.bend is not Bend.ENDING:
        return None
    near = [
        one.tail.level + one.tail.grown
        for one in bent
        if one.tail is not None
        and one.tail.bend is Bend.ENDING
        and one.nats <= best.nats + ONSET_NATS
    ]
    return min(near), max(near)
