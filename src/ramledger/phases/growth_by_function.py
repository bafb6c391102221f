"""Growth of a level booked to functions, and its release to the function that it came from.

Between two samples only the difference of a level is seen. What a function allocates for a moment
is often released while the next one runs: so releases are matched with earlier growth.
"""

from collections import Counter
from dataclasses import dataclass, field

_MAX_OPEN = 400  # stretches of growth remembered; older ones stay booked for good
_SIMILAR = 0.2  # a release this near in size to one stretch of growth is that stretch's
_LOOK_BACK = 12  # stretches among which a similar one is looked for
_NOISE_BYTES = 64 * 1024  # the kernel's counters lag by some pages


@dataclass(slots=True)
class FunctionGrowth:
    """One level, followed from sample to sample; `take` gives net growth by function."""

    _level: int | None = None
    _open: list[tuple[str, int]] = field(default_factory=list)  # growth not released, oldest first
    _sums: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, level: int) -> None:
        """The level now, while `name` runs."""
        before, self._level = self._level, level
        if before is None or level == before:
            return
        if level > before:
            self._grow(name, level - before)
        else:
            self._release(before - level)

    def take(self) -> Counter[str]:
        """Net growth since the last call; negative where what was booked earlier is released."""
        taken, self._sums = self._sums, Counter()
        return Counter({name: size for name, size in taken.items() if size})

    def _grow(self, name: str, size: int) -> None:
        self._sums[name] += size
        if self._open and self._open[-1][0] == name:
            self._open[-1] = (name, self._open[-1][1] + size)
        else:
            self._open.append((name, size))
            del self._open[:-_MAX_OPEN]

    def _release(self, size: int) -> None:
        """The stretch of just that size, else the latest ones: what came last goes first."""
        at = self._similar(size)
        if at is not None:
            name, grown = self._open[at]
            self._sums[name] -= min(size, grown)
            if size < grown - _NOISE_BYTES:
                self._open[at] = (name, grown - size)
            else:
                del self._open[at]
            return
        while size > 0 and self._open:
            name, grown = self._open.pop()
            taken = min(size, grown)
            self._sums[name] -= taken
            size -= taken
            if grown > taken:
                self._open.append((name, grown - taken))

    def _similar(self, size: int) -> int | None:
        if size <= _NOISE_BYTES:
            return None
        first = max(0, len(self._open) - _LOOK_BACK)
        candidates = [(abs(self._open[at][1] - size), -at) for at in range(first, len(self._open))]
        off, at = min(candidates, default=(size, 0))
        return -at if off <= _SIMILAR * size else None
