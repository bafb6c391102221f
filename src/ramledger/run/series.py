"""Measurements over time in bounded memory: old ones get sparser, the newest stay dense.

Numbers are kept in arrays, 16 bytes a measurement: a run has a series for every process and owner.
"""

from array import array
from collections.abc import Sequence

_STEPS = "▁▂▃▄▅▆▇█"
_MOST = (1 << 63) - 1  # what an array holds; only a made-up recording has more bytes


class Series:
    """(seconds, bytes) pairs in time order: the whole run thinly, the last stretch in full."""

    __slots__ = ("_gap_seconds", "_most", "_recent", "_recent_most", "_whole")

    def __init__(self, whole: int = 240, recent: int = 240) -> None:
        self._most = max(4, whole)
        self._recent_most = recent
        self._whole = array("d"), array("q")
        self._recent = array("d"), array("q")
        self._gap_seconds = 0.0

    def add(self, t: float, value: int) -> None:
        """Append a measurement; one from the past is taken as of now."""
        value = min(value, _MOST)
        times, values = self._recent
        if times:
            t = max(t, times[-1])
        times.append(t)
        values.append(value)
        if len(times) >= 2 * self._recent_most:
            del times[: -self._recent_most], values[: -self._recent_most]
        self._add_to_whole(t, value)

    def _add_to_whole(self, t: float, value: int) -> None:
        times, values = self._whole
        if times and t - times[-1] < self._gap_seconds:
            return
        times.append(t)
        values.append(value)
        if len(times) > self._most:
            del times[1::2], values[1::2]
            self._gap_seconds = 2 * (times[-1] - times[0]) / self._most

    def __len__(self) -> int:
        return len(self.times)

    @property
    def times(self) -> list[float]:
        return [t for t, _ in self.points]

    @property
    def values(self) -> list[int]:
        return [value for _, value in self.points]

    @property
    def points(self) -> list[tuple[float, int]]:
        recent = list(zip(*(part[-self._recent_most :] for part in self._recent), strict=True))
        if not recent:
            return []
        begin = recent[0][0]
        return [point for point in zip(*self._whole, strict=True) if point[0] < begin] + recent

    @property
    def last(self) -> int:
        return self._recent[1][-1] if self._recent[1] else 0

    def sparkline(self, width: int) -> str:
        """The whole run in `width` cells, from its least to its most; flat where nothing moved."""
        points = self.points
        if not points or width < 1:
            return ""
        start, stop = points[0][0], points[-1][0]
        cells: list[int | None] = [None] * width
        for t, value in points:
            at = int((t - start) / (stop - start) * width) if stop > start else 0
            at = min(at, width - 1)
            before = cells[at]
            cells[at] = value if before is None else max(before, value)
        return drawn(_filled(cells))


def drawn(values: Sequence[int]) -> str:
    """One block a value; changes of a few percent stay low, since they are mostly noise."""
    low, high = min(values), max(values)
    span = max(high - low, high * 0.1, 1)
    return "".join(_STEPS[round((value - low) / span * (len(_STEPS) - 1))] for value in values)


def _filled(cells: list[int | None]) -> list[int]:
    """Cells without a measurement show the one before."""
    filled: list[int] = []
    for cell in cells:
        filled.append(cell if cell is not None else filled[-1] if filled else 0)
    return filled
