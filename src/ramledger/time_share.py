"""Keeps the total cost of repeated work, such as snapshots, below a share of the run's time."""

import time
from collections.abc import Callable

CREDIT_SECONDS = 0.45  # so that short runs get snapshots, too


class Governor:
    """Allows work whose summed cost stays below `share` of the time since the start."""

    def __init__(
        self,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        credit: float = CREDIT_SECONDS,
    ) -> None:
        self.share = share
        self.spent_seconds = 0.0
        self._clock = clock
        self._credit = credit
        self._started = clock()
        self._last_cost = 0.0

    def allows(self, expected_seconds: float | None = None, *, extra: float = 0.0) -> bool:
        """Whether work of that cost fits now; without `expected_seconds`, the cost of the last one.

        `extra`: seconds of credit that only this work has.
        """
        expected = self._last_cost if expected_seconds is None else expected_seconds
        allowed = self._credit + extra + self.share * (self._clock() - self._started)
        return allowed > 0 and self.spent_seconds + expected <= allowed

    def left_seconds(self) -> float:
        """How many seconds of work fit now."""
        allowed = self._credit + self.share * (self._clock() - self._started)
        return max(0.0, allowed - self.spent_seconds)

    def spend(self, seconds: float, *, repeats: bool = True) -> None:
        """Add the cost of finished work; `repeats`: the next work will cost about the same."""
        self.spent_seconds += seconds
        if repeats:
            self._last_cost = seconds
