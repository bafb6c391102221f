"""When the next snapshot is worth its cost: every iteration while that is cheap, then rarer."""

import sys

# (cost below, growth of the distance between snapshots at first): what the credit pays for
_SPREAD = ((0.025, 0.25), (0.08, 0.6), (float("inf"), 0.9))
_SHORTEST_SECONDS = 0.1
_FIRST_SECONDS = 0.2
_WAIT_FOR_LOOP_SECONDS = 15.0
_LONG_ITERATION = 0.2  # seconds over the budget, 20 s as a rule: in longer ones there are some, too
_IN_START_UP = 50.0  # times its cost: a rest that leaves the credit to the training
_PAID_BY_CREDIT = 0.9  # of a snapshot, while all of the credit is there
_EVERY_ITERATION = 100  # snapshots; in a run of many more iterations, later ones are rarer ...
_RARER = 0.02  # ... by this share of the time since the loop began
_SECONDS_PER_MODULE = 2.5e-5  # 0.05 s with the 2,100 of torch and Stable-Baselines3
_MANY_MODULES = 900  # with torch there are more: the first snapshot waits for the loop


def first_snapshot_seconds() -> float:
    """What the first snapshot will take: most objects belong to imported modules."""
    return len(sys.modules) * _SECONDS_PER_MODULE


class SnapshotSchedule:
    """Snapshots at the ends of iterations, as many as `budget`, a share of the time, pays for.

    Before the budget has paid for one, the first iterations get theirs, at growing distances.
    """

    def __init__(self, born: float, budget: float = 0.01) -> None:
        self._born = self._began = self._turned = born
        self._budget = budget
        self._due = born + _FIRST_SECONDS
        self._is_in_loop = False
        self._taken = 0
        self.trains = True  # or the loop may be part of the start, such as one that reads files

    def is_due(self, now: float, *, in_loop: bool, modules: int) -> bool:
        """Whether to take one now; `in_loop`: an iteration of the training loop has just ended."""
        if in_loop and not self._is_in_loop:
            self._is_in_loop, self._began = True, now
            self._due = min(self._due, now + _SHORTEST_SECONDS)
        if in_loop:
            self._turned = now
        elif self._is_in_loop and self._budget * (now - self._turned) < _LONG_ITERATION:
            return False
        if now < self._due:
            return False
        may_wait = modules > _MANY_MODULES and now - self._born < _WAIT_FOR_LOOP_SECONDS
        return in_loop or not may_wait

    def took(self, now: float, cost_seconds: float, credit_left: float = 0.0) -> None:
        """A snapshot has been taken; of the credit, that share is left and pays for a part."""
        self._taken += 1
        age = now - self._began
        spread = next(share for below, share in _SPREAD if cost_seconds < below)
        paid = cost_seconds / self._budget if self._budget > 0 else float("inf")
        paid *= 1 - _PAID_BY_CREDIT * credit_left
        rest = max(_SHORTEST_SECONDS, min(paid, spread * age))
        if not self.trains:
            rest = max(rest, _IN_START_UP * cost_seconds)
        if self._taken > _EVERY_ITERATION:
            rest = max(rest, _RARER * age)
        self._due = now + rest
