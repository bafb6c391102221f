"""Whether one level leaks, and since when: it rises over the settled run, and still at its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ramledger.run.slopes import Slope, floor_of, onset_index, theil_sen
from ramledger.units import MIB

MANY_POINTS = 20  # with as many, a trend that is not even likely is none
_LEAST_GROWTH_BYTES = 1.5 * MIB
_ENOUGH_SINCE = 8  # points after the onset that make a rate of their own
_LATE_WINDOW = 12  # a leak is to be found this many generations after its onset
_ROSE_BEFORE = 0.6  # of the rise that the rate since the onset would have made before it
_STEP = 0.6  # of all growth in one step: a new level, not a leak
_LEAST_RATE_BYTES = 0.05 * MIB
_REGULAR = 0.75  # of the passes add as much to /dev/shm as usual
_TEARDOWN = 0.2  # of the points at most: workers and segments given back at the end


@dataclass(frozen=True, slots=True)
class LevelGrowth:
    """The growth of one level over the run."""

    is_leak: bool
    slope: Slope | None
    onset: int = 0  # index of the point where it begins
    more_points: int = 0  # how many more would decide, when it is not decided


def judge_level(xs: Sequence[float], ys: Sequence[float], tail_share: float = 0.4) -> LevelGrowth:
    """Whether a level leaks: rising over the settled part, and still rising at its end."""
    n = len(xs)
    start = min(max(1, n // 4), n - 4)
    settled_x, settled_y = xs[start:], ys[start:]
    slope = theil_sen(settled_x, settled_y)
    tail_n = max(4, round(tail_share * n))
    tail = theil_sen(xs[-tail_n:], ys[-tail_n:])
    if slope is None or tail is None:
        return LevelGrowth(False, slope)
    floor = floor_of(settled_y)
    gained = floor[-1] - floor[0]
    rise = slope.per_step * (settled_x[-1] - settled_x[0])
    enough = rise >= max(_LEAST_GROWTH_BYTES, 2 * slope.noise)
    goes_on = tail.per_step >= 0.35 * slope.per_step and 0.4 * rise <= gained <= 3 * rise
    goes_on = goes_on and _largest_step(floor) < _STEP * gained
    if slope.is_rising and enough and goes_on and slope.per_step >= _LEAST_RATE_BYTES:
        return _since_onset(xs, ys, slope)
    late = _late_leak(xs, ys)
    if late is not None:
        return late
    likely = theil_sen(settled_x, settled_y, z=1.0)
    doubtful = (
        slope.per_step >= 4 * _LEAST_RATE_BYTES
        and tail.per_step > 0
        and gained > 0
        and not (slope.is_rising and not goes_on)
        and rise >= max(_LEAST_GROWTH_BYTES, 0.3 * slope.noise)
        and (n < MANY_POINTS or (likely is not None and likely.low > 0))
    )
    if not doubtful:
        return LevelGrowth(False, slope)
    # the slope's standard error falls with n^1.5: this many points make it twice that
    needed = (48 * slope.noise**2 / max(slope.per_step, 1.0) ** 2) ** (1 / 3)
    return LevelGrowth(False, slope, more_points=max(2, min(200, round(needed) - n + 2)))


def _since_onset(xs: Sequence[float], ys: Sequence[float], slope: Slope) -> LevelGrowth:
    """A leak, its rate taken from where it begins."""
    onset = onset_index(xs, ys)
    since = theil_sen(xs[onset:], ys[onset:]) if len(xs) - onset >= _ENOUGH_SINCE else None
    if since is None or not since.is_rising:
        return LevelGrowth(True, slope, onset)
    # much the same rise before: noise, not an onset
    expected = since.per_step * (xs[onset] - xs[0])
    if onset and ys[onset] - ys[0] >= _ROSE_BEFORE * expected:
        return LevelGrowth(True, theil_sen(xs, ys) or since, 0)
    return LevelGrowth(True, since, onset)


def _late_leak(xs: Sequence[float], ys: Sequence[float]) -> LevelGrowth | None:
    """A leak that begins late in a long run: steady at the end, beyond every earlier level."""
    n = len(xs)
    start = n - max(_ENOUGH_SINCE, min(_LATE_WINDOW, n // 3))
    if start < _ENOUGH_SINCE:
        return None
    before, window = ys[:start], ys[start:]
    slope = theil_sen(xs[start:], window)
    floor = floor_of(window)
    gained = floor[-1] - floor[0]
    if slope is None or not slope.is_rising or slope.per_step < 4 * _LEAST_RATE_BYTES:
        return None
    rising = sum(b > a for a, b in pairwise(window)) >= 0.7 * (len(window) - 1)
    beyond = floor[-1] - max(before) >= 0.5 * gained
    steady = gained >= max(2 * _LEAST_GROWTH_BYTES, 6 * slope.noise)
    goes_on = window[-1] - window[len(window) // 2] >= 0.35 * (window[-1] - window[0])
    if rising and beyond and steady and goes_on and _largest_step(floor) < 0.4 * gained:
        return _since_onset(xs, ys, slope)
    return None


def _largest_step(floor: Sequence[float]) -> float:
    """The most that a level rises from one point to the next."""
    return max((b - a for a, b in pairwise(floor)), default=0.0)


def before_teardown(level: Sequence[float]) -> int:
    """How many points lie before everything is given back at the very end."""
    n = len(level)
    peak = max(range(n), key=lambda i: level[i]) if n else 0
    fallen = level[peak] - level[-1] if n else 0.0
    rise = level[peak] - min(level) if n else 0.0
    is_teardown = fallen > 0.3 * rise and n - 1 - peak <= max(2, _TEARDOWN * n)
    return peak + 1 if is_teardown and fallen > _LEAST_GROWTH_BYTES else n


def is_regular(rises: Sequence[float]) -> bool:
    """Whether a level rises with every generation, and by much the same.

    /dev/shm is the whole machine's: what another program leaves there has another rhythm.
    """
    settled = rises[len(rises) // 4 :]
    usual = median(settled) if settled else 0.0
    if usual <= 0:
        return False
    alike = sum(abs(rise - usual) <= 0.4 * usual for rise in settled)
    return alike >= _REGULAR * len(settled)
