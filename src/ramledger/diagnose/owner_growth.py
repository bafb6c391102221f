"""Growth of what the program's own names hold, seen in snapshots: free of the allocator's noise.

RSS rises and falls with batches that come and go; a list that gets longer with every generation
does not. Buffers that fill to a known capacity, or were reserved at once, are left out.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from ramledger.diagnose.filling import OWNERS, Filling, live_snapshots
from ramledger.run.aligned_snapshots import Snapshot
from ramledger.run.slopes import Slope, theil_sen
from ramledger.run.timeline import Timeline
from ramledger.units import MIB

FEWEST_SNAPSHOTS = 5
_LEAST_GROWTH_BYTES = 6 * MIB
_LEAST_SPAN = 0.4  # of the run, between the first and the last snapshot at it
_MOST_NOISE = 0.08  # around the line, of all growth
_STILL = 0.6  # of the rate, in the later half
_MOST_OF_LEVEL = 2.5  # times the rise of the level, which the noise may hide in part


def steady_growth(timeline: Timeline, fillings: Sequence[Filling]) -> tuple[str, Slope] | None:
    """The account that grows fastest along a straight line to the last snapshot, if any does."""
    snapshots = live_snapshots(timeline)
    if len(snapshots) < FEWEST_SNAPSHOTS or len(timeline.points) < FEWEST_SNAPSHOTS:
        return None
    found = []
    for account, entry in snapshots[-1].entries.items():
        is_filling = any(filling.covers(account) for filling in fillings)
        if entry.source in OWNERS and not is_filling:
            slope = _slope(timeline, account, snapshots)
            if slope is not None and slope.per_step <= _MOST_OF_LEVEL * _level_rise(timeline):
                found.append((account, slope))
    return max(found, key=lambda one: one[1].per_step, default=None)


def _level_rise(timeline: Timeline) -> float:
    """By how much anonymous memory rises a point: mapped files are in no process's own memory."""
    levels = [point.anon_bytes for point in timeline.points]
    third = max(1, len(levels) // 3)
    steps = timeline.points[-third].generation - timeline.points[0].generation
    return (median(levels[-third:]) - median(levels[:third])) / max(1, steps)


def _slope(timeline: Timeline, account: str, snapshots: Sequence[Snapshot]) -> Slope | None:
    seen = [snapshot for snapshot in snapshots if account in snapshot.entries]
    xs = [timeline.generation_at(snapshot.t) for snapshot in seen]
    held = [float(snapshot.entries[account].reserved_bytes) for snapshot in seen]
    run = timeline.points[-1].generation - timeline.points[0].generation
    if len(seen) < FEWEST_SNAPSHOTS or xs[-1] - xs[0] < _LEAST_SPAN * run:
        return None
    rise = held[-1] - held[0]
    whole, later = theil_sen(xs, held), theil_sen(xs[len(xs) // 2 :], held[len(xs) // 2 :])
    if rise < _LEAST_GROWTH_BYTES or whole is None or later is None:
        return None
    never_falls = all(b >= a - 0.01 * rise for a, b in pairwise(held))
    goes_on = later.per_step >= _STILL * whole.per_step
    is_line = whole.is_rising and whole.noise <= _MOST_NOISE * rise
    return whole if never_falls and goes_on and is_line else None
