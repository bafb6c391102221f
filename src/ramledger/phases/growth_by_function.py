"""Books growth of memory to the function that was running, and a release to the same function.

Two samples show only a difference. Memory that one function allocates for a moment is often
released while the next one runs: so releases are matched with earlier growth.
"""

from dataclasses import dataclass, field

from ramledger.interpreter.tally import Tally

_MAX_OPEN = 400  # growths remembered; older ones can no longer be released
_SIMILAR = 0.2  # a release of nearly the size of one growth is matched with it
_LOOK_BACK = 12  # growths that are compared with a release
_NOISE_BYTES = 64 * 1024  # the kernel's counters lag by some pages


@dataclass(slots=True)
class FunctionGrowth:
    """One quantity, sample by sample; `take` returns its net growth by function."""

    _level: int | None = None
    _open: list[tuple[str, int]] = field(default_factory=list)  # growth not released, oldest first
    _sums: Tally[str] = field(default_factory=Tally)
    _unknown: int = 0  # released since `take`, and booked to nobody

    def add(self, name: str, level: int) -> None:
        """The quantity is `level` now, while `name` runs."""
        before, self._level = self._level, level
        if before is None or level == before:
            return
        if level > before:
            self._grow(name, level - before)
        else:
            self._release(before - level)

    def take(self) -> Tally[str]:
        """Net growth since the last call; negative if memory booked earlier was released."""
        taken, self._sums = self._sums, Tally()
        self._unknown = 0
        return Tally({name: size for name, size in taken.items() if size})

    def take_all(self) -> Tally[str]:
        """The same, and as '' the release of what was there before: the sum is the whole change."""
        unknown = self._unknown
        taken = self.take()
        taken[""] -= unknown
        return taken

    def _grow(self, name: str, size: int) -> None:
        self._sums[name] += size
        if self._open and self._open[-1][0] == name:
            self._open[-1] = (name, self._open[-1][1] + size)
        else:
            self._open.append((name, size))
            del self._open[:-_MAX_OPEN]

    def _release(self, size: int) -> None:
        """Release a growth of about that size, else the latest growths first."""
        at = self._similar(size)
        if at is not None:
            name, grown = self._open[at]
            self._sums[name] -= min(size, grown)
            if size < grown - _NOISE_BYTES:
                self._open[at] = (name, grown - size)
            else:
                del self._open[at]
            size -= min(size, grown)
        while size > 0 and self._open:
            name, grown = self._open.pop()
            taken = min(size, grown)
            self._sums[name] -= taken
            size -= taken
            if grown > taken:
                self._open.append((name, grown - taken))
        self._unknown += size

    def _similar(self, size: int) -> int | None:
        if size <= _NOISE_BYTES:
            return None
        first = max(0, len(self._open) - _LOOK_BACK)
        candidates = [(abs(self._open[at][1] - size), -at) for at in range(first, len(self._open))]
        off, at = min(candidates, default=(size, 0))
        return -at if off <= _SIMILAR * size else None
