"""A part that is known at few moments, at all those of the dense whole that it belongs to.

A part that makes up most of the growth moves as the whole does, also after the last snapshot:
a buffer that still filled when it was last seen does not leak if the whole went flat since.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ramledger.run.shapes.constants import FOLLOWS, MOST_MOMENTS
from ramledger.run.shapes.curve import cleaned, in_own_units, median, spikes
from ramledger.run.shapes.fit import Points


def filled_in(part: Points, whole: Points) -> list[tuple[float, float]]:
    """The part's own points, and its likely values at the moments of the whole.

    Only where the part makes up most of what the whole moves: elsewhere the whole says nothing of
    it, and made-up points would look like evidence.
    """
    return moved_with(part, dense(whole))


def moved_with(part: Points, moments: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same, where the moments of the whole are known already."""
    known = list(zip(*cleaned(part), strict=True))
    if len(known) < 2 or len(moments) < 2:
        return known
    levels = [level_at(moments, at) for at, _ in known]
    steps = [
        _Step(later[0] - one[0], later[1] - one[1], level - before)
        for (one, later), (before, level) in zip(pairwise(known), pairwise(levels), strict=True)
    ]
    follows = _follows(steps)
    result = []
    for (at, value), (end, _), step, level in zip(known, known[1:], steps, levels, strict=False):
        result.append((at, value))
        inside = _between(moments, at, end)
        share = _share(step.grown, [level, level + step.whole, *(y for _, y in inside)])
        if min(follows, 2 * share) < FOLLOWS:
            continue
        for moment, now in inside:
            passed = (moment - at) / step.passed
            off = now - level - passed * step.whole
            result.append((moment, value + passed * step.grown + share * off))
    result.append(known[-1])
    return result + (_after(known, levels, moments) if follows >= FOLLOWS else [])


@dataclass(frozen=True, slots=True)
class _Step:
    """From one snapshot to the next: time, and growth of the part and of the whole."""

    passed: float
    grown: float
    whole: float


def _follows(steps: Sequence[_Step]) -> float:
    """How much of a part's changes those of the whole explain, at one share: from 0 to 1."""
    both = sum(step.grown * step.whole for step in steps)
    squares = sum(step.grown * step.grown for step in steps)
    whole = sum(step.whole * step.whole for step in steps)
    return both * both / squares / whole if both > 0 and squares and whole else 0.0


def _after(
    known: Sequence[tuple[float, float]],
    levels: Sequence[float],
    moments: Sequence[tuple[float, float]],
) -> list[tuple[float, float]]:
    """What follows the last point, by the share of the later half of the known stretch."""
    end, last = known[-1]
    middle = min(len(known) - 2, len(known) // 2)
    start = known[middle][0]
    seen = [y for at, y in moments if start <= at <= end]
    share = _share(last - known[middle][1], [levels[middle], levels[-1], *seen])
    if 2 * share < FOLLOWS:
        return []
    return [(at, last + share * (level - levels[-1])) for at, level in moments if at > end]


def _share(grown: float, levels: Sequence[float]) -> float:
    """Of all that the whole moved; a part that moves the other way has none."""
    moved = max(levels) - min(levels)
    is_along = (levels[1] - levels[0]) * grown > 0
    return min(1.0, abs(grown) / moved) if is_along and moved else 0.0


def dense(whole: Points) -> list[tuple[float, float]]:
    """The whole without its spikes, at not too many moments; the last one is kept."""
    ats, values = cleaned(whole)
    if len(ats) < 2:
        return []
    if len(ats) > MOST_MOMENTS:
        borders = [len(ats) * number // MOST_MOMENTS for number in range(MOST_MOMENTS + 1)]
        values = [median(values[a:b]) for a, b in pairwise(borders)]
        ats = [*(ats[(a + b) // 2] for a, b in list(pairwise(borders))[:-1]), ats[-1]]
    dropped = spikes(in_own_units(ats, values, 0.0)[0])
    return [(at, v) for i, (at, v) in enumerate(zip(ats, values, strict=True)) if i not in dropped]


def _between(
    moments: Sequence[tuple[float, float]], start: float, stop: float
) -> Sequence[tuple[float, float]]:
    first = bisect_right(moments, start, key=lambda moment: moment[0])
    return moments[first : bisect_left(moments, stop, key=lambda moment: moment[0])]


def level_at(moments: Sequence[tuple[float, float]], at: float) -> float:
    """Straight between two moments; before the first and after the last, theirs; 0 without any."""
    if not moments:
        return 0.0
    after = bisect_right(moments, at, key=lambda moment: moment[0])
    if after == 0 or after == len(moments):
        return moments[min(after, len(moments) - 1)][1]
    (left, low), (right, high) = moments[after - 1], moments[after]
    return low + (high - low) * ((at - left) / (right - left))
