"""Measurements over time in bounded memory: old ones get sparser, the newest stay dense."""

from collections import deque
from collections.abc import Sequence

_STEPS = "▁▂▃▄▅▆▇█"


class Series:
    """(seconds, bytes) pairs in time order: the whole run thinly, the last stretch in full."""

    def __init__(self, whole: int = 240, recent: int = 240) -> None:
        self._most = max(4, whole)
        self._whole: list[tuple[float, int]] = []
        self._gap_seconds = 0.0
        self._recent: deque[tuple[float, int]] = deque(maxlen=recent)

    def add(self, t: float, value: int) -> None:
        """Append a measurement; one from the past is taken as of now."""
        if self._recent:
            t = max(t, self._recent[-1][0])
        self._recent.append((t, value))
        if self._whole and t - self._whole[-1][0] < self._gap_seconds:
            return
        self._whole.append((t, value))
        if len(self._whole) > self._most:
            self._whole = self._whole[::2]
            span = self._whole[-1][0] - self._whole[0][0]
            self._gap_seconds = 2 * span / self._most

    def __len__(self) -> int:
        return len(self._points())

    @property
    def times(self) -> list[float]:
        return [t for t, _ in self._points()]

    @property
    def values(self) -> list[int]:
        return [value for _, value in self._points()]

    @property
    def last(self) -> int:
        return self._recent[-1][1] if self._recent else 0

    @property
    def first(self) -> int:
        return self._whole[0][1] if self._whole else 0

    @property
    def per_second(self) -> float | None:
        """Mean growth over all of it; None with one measurement."""
        points = self._points()
        if len(points) < 2 or points[-1][0] <= points[0][0]:
            return None
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def sparkline(self, width: int) -> str:
        """The whole run in `width` cells, from its least to its most; flat where nothing moved."""
        points = self._points()
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

    def _points(self) -> list[tuple[float, int]]:
        if not self._recent:
            return []
        begin = self._recent[0][0]
        return [point for point in self._whole if point[0] < begin] + list(self._recent)


def drawn(values: Sequence[int]) -> str:
    """One block a value; a change of a few percent stays low, for it is mostly noise."""
    low, high = min(values), max(values)
    span = max(high - low, high * 0.1, 1)
    return "".join(_STEPS[round((value - low) / span * (len(_STEPS) - 1))] for value in values)


def _filled(cells: list[int | None]) -> list[int]:
    """Cells without a measurement show the one before."""
    filled: list[int] = []
    for cell in cells:
        filled.append(cell if cell is not None else filled[-1] if filled else 0)
    return filled
