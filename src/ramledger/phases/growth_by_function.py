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
    # growth not released, oldest first; not pairs: each would be one more object in the program
    _names: list[str] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
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
        if self._names and self._names[-1] == name:
            self._sizes[-1] += size
        else:
            self._names.append(name)
            self._sizes.append(size)
            del self._names[:-_MAX_OPEN], self._sizes[:-_MAX_OPEN]

    def _release(self, size: int) -> None:
        """Release a growth of about that size, else the latest growths first."""
        at = self._similar(size)
        if at is not None:
            grown = self._sizes[at]
            taken = min(size, grown)
            self._sums[self._names[at]] -= taken
            if size < grown - _NOISE_BYTES:
                self._sizes[at] = grown - size
            else:
                del self._names[at], self._sizes[at]
            size -= taken
        while size > 0 and self._names:
            taken = min(size, self._sizes[-1])
            self._sums[self._names[-1]] -= taken
            self._sizes[-1] -= taken
            size -= taken
            if not self._sizes[-1]:
                self._names.pop()
                self._sizes.pop()
        self._unknown += size

    def _similar(self, size: int) -> int | None:
        if size <= _NOISE_BYTES:
            return None
        first = max(0, len(self._sizes) - _LOOK_BACK)
        candidates = [(abs(self._sizes[at] - size), -at) for at in range(first, len(self._sizes))]
        off, at = min(candidates, default=(size, 0))
        return -at if off <= _SIMILAR * size else None
