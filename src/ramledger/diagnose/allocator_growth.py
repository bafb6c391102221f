"""What the allocators say about growth: is it in use, or freed memory that malloc keeps?"""

from collections.abc import Sequence

from ramledger.diagnose.filling import Filling
from ramledger.run.timeline import Point
from ramledger.units import MIB

_FEWEST = 8
_IN_USE = 0.3  # of the growth of the later half, in use or outside of malloc: no noise
_LEAST_KEPT_BYTES = 8 * MIB  # holes of that size come and go
_EACH_THIRD = 0.2  # of all growth of free memory: what is kept grows from third to third


def is_fragmentation_noise(points: Sequence[Point], fillings: Sequence[Filling]) -> bool:
    """Whether a level rises by freed memory alone, which comes and goes with malloc's holes.

    Free memory that rises steadily is a leak, too; a step, or one long wave, is not.
    """
    kept = [
        p for p in points if p.malloc_in_use_bytes is not None and p.malloc_free_bytes is not None
    ]
    if len(kept) < _FEWEST:
        return False
    free = [float(p.malloc_free_bytes or 0) for p in kept]
    used = [p.in_use_bytes for p in kept]
    level = [p.anon_bytes - sum(f.at(p.t) for f in fillings) for p in kept]
    other = [a - b - c for a, b, c in zip(level, used, free, strict=True)]
    middle = len(kept) // 2
    grown = max(1.0, _risen(level, middle))
    if _risen(used, middle) >= _IN_USE * grown or _risen(other, middle) >= _IN_USE * grown:
        return False
    return not _rises_by_thirds(free)


def _risen(values: Sequence[float], middle: int) -> float:
    """From the least of the middle of the run to the least of its end."""
    window = max(2, len(values) // 6)
    return min(values[-window:]) - min(values[middle - window // 2 : middle + window])


def _rises_by_thirds(values: Sequence[float]) -> bool:
    third = len(values) // 3
    settled = values[-3 * third + third // 2 :]  # the first ones are warm-up
    third = len(settled) // 3
    least = [min(settled[i * third : (i + 1) * third]) for i in range(3)]
    gained = least[2] - least[0]
    return (
        gained >= _LEAST_KEPT_BYTES
        and least[1] - least[0] >= _EACH_THIRD * gained <= least[2] - least[1]
    )
