"""From the chosen pieces to words: shape, onset, capacity; and whether it still rises at the end.

Everything here is in the own units of the curve.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from math import inf, sqrt

from ramledger.run.shapes.choice import Candidate, Choice
from ramledger.run.shapes.code_length import student_90
from ramledger.run.shapes.constants import ALIKE, CAPACITY_SLACK, JOINED, LAST_PART, SPIKE_WINDOW
from ramledger.run.shapes.curve import Curve
from ramledger.run.shapes.fit import Bend, Interval, Shape
from ramledger.run.shapes.pieces import Part, jump_is_noise
from ramledger.run.shapes.slope import Slope, slope_of
from ramledger.run.shapes.stairs import staircase


@dataclass(frozen=True, slots=True)
class Reading:
    """What a choice means."""

    shape: Shape
    level: float
    slope: float
    slope_interval: Interval
    onset: float | None = None
    onset_interval: Interval | None = None
    capacity: float | None = None
    capacity_interval: Interval | None = None
    is_rising: bool = False
    stairs_nats: float | None = None  # the evidence, where it rises by steps
    turn: float | None = None  # an earlier peak that a rise after a fall has yet to pass


def read(curve: Curve, choice: Choice, capacity: float | None) -> Reading:
    """The words for the best model."""
    best = choice.best
    if best.tail is not None:
        return _bent(curve, choice, capacity)
    last = best.parts[-1]
    found = slope_of(curve.xs[last.begin :], curve.ys[last.begin :], curve.quantum, best.noise)
    interval = _with_later(curve, best, found)
    if last.is_flat or interval[0] <= 0 <= interval[1]:
        return _flat(curve, best, found, capacity)
    return _line(curve, best, found, interval, capacity)


# ---- flat at the end --------------------------------------------------------------------------


def _flat(curve: Curve, best: Candidate, found: Slope, capacity: float | None) -> Reading:
    last = best.parts[-1]
    level = sum(curve.ys[last.begin :]) / (last.count)
    stairs = staircase(curve, best)
    if stairs is not None:
        return Reading(
            Shape.LINEAR, level, stairs.slope, (stairs.low, stairs.high), stairs.onset,
            (curve.xs[0], stairs.onset), is_rising=True, stairs_nats=stairs.nats,
        )  # fmt: skip
    interval = min(0.0, found.low), max(0.0, found.high)
    if len(best.parts) == 1:
        return Reading(Shape.CONSTANT, level, 0.0, interval)
    first = _y_at(curve, best.parts[0], best.parts[0].begin)
    risen = sum(_rise(curve, part) for part in best.parts[:-1] if part.slope > 0)
    is_full = capacity is not None and capacity / CAPACITY_SLACK <= level
    before = best.parts[-2]
    has_fallen = _y_at(curve, before, before.end - 1) > level + 2 * best.noise.scale
    is_filling = level > first and not has_fallen and (risen >= (level - first) / 2 or is_full)
    border, doubt = _border(curve, best, len(best.parts) - 1)
    if not is_filling:
        return Reading(Shape.STEP, level, 0.0, interval, border, (border - doubt, border + doubt))
    start = next((part for part in best.parts if part.slope > 0), best.parts[0])
    index = best.parts.index(start)
    onset, doubt = _border(curve, best, index)
    known = capacity if is_full and capacity is not None else level
    error = best.noise.scale / sqrt(max(1.0, best.noise.independent)) * 2
    return Reading(
        Shape.FILLING, level, 0.0, interval, onset, (onset - doubt, onset + doubt),
        known,
        (known, known) if is_full else (level - error, level + error),
    )  # fmt: skip


def _rise(curve: Curve, part: Part) -> float:
    return part.slope * (curve.xs[part.end - 1] - curve.xs[part.begin])


def _y_at(curve: Curve, part: Part, index: int) -> float:
    return part.y(curve.xs[index])


# ---- a line at the end ------------------------------------------------------------------------


def _line(
    curve: Curve, best: Candidate, found: Slope, interval: Interval, capacity: float | None
) -> Reading:
    last = best.parts[-1]
    level = last.y(curve.xs[-1])
    index = _chain(curve, best)
    onset, doubt = _border(curve, best, index)
    late, _ = _border(curve, best, len(best.parts) - 1)
    onsets = onset - doubt, max(onset + doubt, late if _is_steeper(best, index) else -inf)
    if found.slope < 0:
        return Reading(Shape.LINEAR, level, found.slope, interval, onset, onsets)
    peak, lasted = _earlier_rise(curve, best, index)
    if level <= peak + best.noise.scale and curve.xs[-1] - curve.xs[last.begin] <= lasted:
        return Reading(
            Shape.SAWTOOTH, level, found.slope, interval, onset, onsets, turn=peak - level
        )
    is_rising = _still_rises(curve, best, found)
    if capacity is not None and level <= capacity * CAPACITY_SLACK:
        known = max(capacity, level)
        return Reading(
            Shape.FILLING, level, found.slope, interval, onset, onsets, known, (known, known),
            is_rising,
        )  # fmt: skip
    return Reading(Shape.LINEAR, level, found.slope, interval, onset, onsets, is_rising=is_rising)


def _with_later(curve: Curve, best: Candidate, found: Slope) -> Interval:
    """Stretched towards the slope of the later half: the end of what came before is soft."""
    last = best.parts[-1]
    middle = (last.begin + last.end) // 2
    if len(best.parts) == 1 or last.end - middle <= SPIKE_WINDOW + 1:
        return found.low, found.high
    late = slope_of(curve.xs[middle:], curve.ys[middle:], curve.quantum, best.noise)
    off = abs(late.slope - found.slope)
    return found.low - off / 2, found.high + off / 2


def _chain(curve: Curve, best: Candidate) -> int:
    """The first of the pieces that rise one after the other until the end.

    Those before must be as fast as the last: a slower rise is another one.
    """
    parts = best.parts
    index = len(parts) - 1
    least = parts[-1].slope / ALIKE
    while index and parts[index - 1].slope >= least > 0:
        one, other = parts[index - 1], parts[index]
        if _y_at(curve, other, other.begin) < _y_at(curve, one, one.end - 1) - best.noise.scale * 2:
            break
        index -= 1
    return index


def _is_steeper(best: Candidate, index: int) -> bool:
    """A warm-up before: the growth may have begun with it, or when it ended."""
    return best.parts[index].slope > ALIKE * best.parts[-1].slope


def _earlier_rise(curve: Curve, best: Candidate, index: int) -> tuple[float, float]:
    """How high the level was before, and how long it had risen until it fell, at most.

    A rise that is neither higher nor longer than one that fell back may fall back, too.
    """
    peak, longest, began = -inf, 0.0, curve.xs[0]
    for number, part in enumerate(best.parts[:index]):
        if part.count <= SPIKE_WINDOW:
            continue
        start, end = curve.xs[part.begin], curve.xs[part.end - 1]
        if number and part.y(start) < best.parts[number - 1].y(start) - best.noise.scale:
            began = start
        if part.y(end) < part.y(start):
            began = end
        peak = max(peak, part.y(start), part.y(end))
        longest = max(longest, end - began)
    return peak, longest


def _still_rises(curve: Curve, best: Candidate, found: Slope) -> bool:
    """Not merely on average: the last part of the last piece rises, as far as noise tells."""
    last = best.parts[-1]
    if _rise(curve, last) <= curve.quantum:
        return False
    border = last.end - max(3, round((last.count) * LAST_PART))
    if border <= last.begin:
        return True
    late = slope_of(curve.xs[border:], curve.ys[border:], curve.quantum, best.noise)
    return late.high > found.slope / ALIKE


def _border(curve: Curve, best: Candidate, index: int) -> tuple[float, float]:
    """Where a piece begins, and the doubt: where it meets the one before, or the jump."""
    parts = best.parts
    other = parts[index]
    if not index:
        return curve.xs[0], 0.0
    one = parts[index - 1]
    gap = curve.xs[other.begin] - curve.xs[other.begin - 1]
    turn = other.slope - one.slope
    if not turn or not jump_is_noise(curve, one, other, best.noise.scale, JOINED):
        return _jump(curve, one, other)
    low = curve.xs[max(one.begin, other.begin - (one.count) // 2 - 1)]
    high = curve.xs[min(other.end - 1, other.begin + (other.count) // 2)]
    met = min(high, max(low, (one.foot - other.foot) / turn))
    counts = 1 / (one.count) + 1 / (other.count)
    doubt = 2 * best.noise.scale * sqrt(counts) / abs(turn) * student_90(best.noise.independent)
    return met, min(1.0, doubt + gap / 2)


def _jump(curve: Curve, one: Part, other: Part) -> tuple[float, float]:
    """Between two points, of the denser curve where there is one: the split that fits best."""
    left, right = curve.xs[other.begin - 1], curve.xs[other.begin]
    gap = right - left
    if curve.source is None:
        return right - gap / 2, gap / 2
    xs, ys = curve.source.xs, curve.source.ys
    first, last = bisect_left(xs, left - gap / 2), bisect_right(xs, right + gap / 2)
    offs = [abs(y - other.y(x)) - abs(y - one.y(x)) for x, y in zip(xs, ys, strict=True)]
    costs = list(accumulate(reversed(offs[first:last])))[::-1]
    at = first + min(range(len(costs)), key=costs.__getitem__)
    before = xs[max(0, at - 1)]
    return (before + xs[at]) / 2, (xs[at] - before) / 2


# ---- a bend at the end ------------------------------------------------------------------------


def _bent(curve: Curve, choice: Choice, known: float | None) -> Reading:
    best, tail = choice.best, choice.best.tail
    if tail is None:
        raise ValueError("a reading of a bend needs a tail")
    start = curve.xs[tail.begin]
    span = curve.xs[-1] - start
    level = tail.level + tail.grown * tail.share(span)
    rate = tail.grown / tail.time_constant
    rate *= (
        1 - tail.share(span) if tail.bend is Bend.ENDING else 1 / (1 + span / tail.time_constant)
    )
    late = max(tail.begin, len(curve) - max(3, round((len(curve) - tail.begin) * LAST_PART)))
    found = slope_of(curve.xs[late:], curve.ys[late:], curve.quantum, best.noise)
    interval = rate - found.doubt, rate + found.doubt
    onsets = start, start
    if tail.grown < 0:
        return Reading(Shape.STEP, level, rate, interval, start, onsets)
    capacity, limits = tail.level + tail.grown if choice.limits else None, choice.limits
    if known is not None and level <= known * CAPACITY_SLACK:
        capacity, limits = max(known, level), (max(known, level), max(known, level))
    return Reading(
        Shape.FILLING, level, rate, interval, start, onsets, capacity, limits,
        is_rising=min(found.low, interval[0]) > 0,
    )  # fmt: skip
