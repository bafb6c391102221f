"""When the next snapshot is worth its cost: spread over the run, not spent on its first second."""

import sys

# (cost below, the next one not before: so many seconds, such a share of the time since the start)
_SPACING = ((0.025, 0.15, 0.4), (0.08, 0.6, 0.7), (float("inf"), 1.2, 0.9))
_SHORTEST_SECONDS = 0.1
_FIRST_SECONDS = 0.2
_WAIT_FOR_LOOP_SECONDS = 15.0
_SECONDS_PER_MODULE = 7e-5  # 0.14 s with the 2,100 of torch and Stable-Baselines3
_MANY_MODULES = 900  # with torch there are more: a snapshot takes 0.05 s and waits for the loop


def first_snapshot_seconds() -> float:
    """What the first snapshot will take: most objects belong to imported modules."""
    return len(sys.modules) * _SECONDS_PER_MODULE


class SnapshotSchedule:
    """Snapshots at times that form a geometric series, beginning when the loop is detected.

    Expensive snapshots are rarer and wait until the loop is detected.
    """

    def __init__(self, born: float) -> None:
        self._born = self._began = born
        self._due = born + _FIRST_SECONDS
        self._is_in_loop = False

    def is_due(self, now: float, *, in_loop: bool, modules: int) -> bool:
        """Whether to take one now; `in_loop`: an iteration of the training loop has just ended."""
        if in_loop and not self._is_in_loop:
            self._is_in_loop, self._began = True, now
            self._due = min(self._due, now + _SHORTEST_SECONDS)
        if now < self._due:
            return False
        may_wait = modules > _MANY_MODULES and now - self._born < _WAIT_FOR_LOOP_SECONDS
        return in_loop or not may_wait

    def took(self, now: float, cost_seconds: float) -> None:
        """A snapshot has been taken."""
        shortest, share = next(
            (shortest, share) for below, shortest, share in _SPACING if cost_seconds < below
        )
        self._due = now + max(shortest, (now - self._began) * share)
