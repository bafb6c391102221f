"""Which samples are written: all at first, fewer and fewer later; extremes are never lost.

With one sample per 1/3000 of the time elapsed, at most one in 10 s, a day takes some 17,000 lines.
"""

_SHARE = 1 / 3000
_RAREST_SECONDS = 10.0


class Thinning:
    """Decides sample by sample; keeps the least and the most of what was left out."""

    def __init__(self, every_seconds: float) -> None:
        self._every = every_seconds
        self._written_at = float("-inf")
        self._low: int | None = None
        self._high = 0

    def keeps(self, elapsed_seconds: float, level_bytes: int) -> bool:
        """Whether this sample is to be written."""
        self._low = level_bytes if self._low is None else min(self._low, level_bytes)
        self._high = max(self._high, level_bytes)
        rest = max(self._every * 0.9, min(elapsed_seconds * _SHARE, _RAREST_SECONDS))
        if elapsed_seconds - self._written_at < rest:
            return False
        self._written_at = elapsed_seconds
        return True

    def take_extremes(self) -> tuple[int, int]:
        """Least and most since the last written sample, that one included."""
        low, high = self._low or 0, self._high
        self._low, self._high = None, 0
        return low, high
