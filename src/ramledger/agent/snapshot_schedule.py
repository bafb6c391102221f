"""When the next deep look is worth its cost: spread over the run, not spent on its first second."""

import sys

# (cost below, the next one not before: so many seconds, such a share of the time since the start)
_SPACING = ((0.025, 0.15, 0.4), (0.08, 0.6, 0.7), (float("inf"), 1.2, 0.9))
_SHORTEST_SECONDS = 0.1
_FIRST_SECONDS = 0.2
_WAIT_FOR_LOOP_SECONDS = 15.0
_SECONDS_PER_MODULE = 7e-5  # 0.14 s with the 2,100 of torch and Stable-Baselines3
_MANY_MODULES = 900  # with torch there are more: a look takes 0.05 s and waits for the training


def first_look_seconds() -> float:
    """What a deep look will take, before there was one: most objects are of what was imported."""
    return len(sys.modules) * _SECONDS_PER_MODULE


class LookSchedule:
    """Looks at times that form a geometric series, from where the training loop is known on.

    Dear ones are rarer, and wait for the loop.
    """

    def __init__(self, born: float) -> None:
        self._born = self._began = born
        self._due = born + _FIRST_SECONDS
        self._is_in_loop = False

    def is_due(self, now: float, *, in_loop: bool, modules: int) -> bool:
        """Whether to look now; `in_loop`: the training loop is known and turns."""
        if in_loop and not self._is_in_loop:
            self._is_in_loop, self._began = True, now
            self._due = min(self._due, now + _SHORTEST_SECONDS)
        if now < self._due:
            return False
        may_wait = modules > _MANY_MODULES and now - self._born < _WAIT_FOR_LOOP_SECONDS
        return in_loop or not may_wait

    def took(self, now: float, cost_seconds: float) -> None:
        """A look has been taken."""
        shortest, share = next(
            (shortest, share) for below, shortest, share in _SPACING if cost_seconds < below
        )
        self._due = now + max(shortest, (now - self._began) * share)
