"""Growth by steps that come again and again: arenas that an allocator adds, lists that grow.

Steps are events in time: their number gives the doubt, the pause since the last one whether they
go on.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from ramledger.run.shapes.choice import Candidate
from ramledger.run.shapes.constants import ALIKE, LONGEST_PAUSE, SPIKE_WINDOW, STAIRS, T90_MANY
from ramledger.run.shapes.curve import Curve


@dataclass(frozen=True, slots=True)
class Staircase:
    """The mean rate of steps that go on."""

    slope: float
    low: float
    high: float
    onset: float
    nats: float  # evidence that they go on


def staircase(curve: Curve, best: Candidate) -> Staircase | None:
    """Steps up without one down, of which the last is not long ago, and that do not slow down."""
    steps = _steps_up(curve, best)
    count = len(steps)
    if count < STAIRS:
        return None
    end, first = curve.xs[-1], steps[0][0]
    pause = (steps[-1][0] - first) / (count - 1)
    if not pause or end - steps[-1][0] > LONGEST_PAUSE * pause:
        return None
    start = max(curve.xs[0], first - pause)
    heights = [height for _, height in steps]
    slope = sum(heights) / (end - start)
    middle = (start + end) / 2
    late = sum(height for x, height in steps if x > middle) / (end - middle)
    if late * ALIKE < slope:
        return None
    doubt = T90_MANY * sqrt(sum(height * height for height in heights)) / (end - start)
    if doubt >= slope:
        return None
    errors = T90_MANY * slope / doubt
    return Staircase(slope, slope - doubt, slope + doubt, start, errors * errors / 2)


def _steps_up(curve: Curve, best: Candidate) -> list[tuple[float, float]]:
    """Where and how far the level rose since it last fell, or since it last rose steadily."""
    steps: list[tuple[float, float]] = []
    noise = 2 * best.noise.scale
    for one, other in pairwise(best.parts):
        start, end = curve.xs[one.begin], curve.xs[one.end - 1]
        if one.slope and one.count > SPIKE_WINDOW + 1:
            steps.clear()
        elif one.slope:
            _add(steps, end, one.y(end) - one.y(start), noise)
        begin = curve.xs[other.begin]
        _add(steps, begin, other.y(begin) - one.y(end), noise)
    return steps


def _add(steps: list[tuple[float, float]], x: float, height: float, noise: float) -> None:
    if height > noise:
        steps.append((x, height))
    elif height < -noise:
        steps.clear()
