"""Tasks that are repeated at a bounded cost: how often each runs, and when one is dropped.

Nothing here reads a clock by itself, and nothing is raised.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

Clock = Callable[[], float]

_ALWAYS = float("inf")
_RETRY_SECONDS = 1.0  # after a failure; twice as long after each further one in a row
_MOST_FAILURES = 5  # in a row: then the task is dropped


@dataclass(frozen=True, slots=True)
class Pace:
    """The rest after a run of a task: its cost is at most `share` of the time, within two bounds.

    In the first `early_seconds` it is at most `early_share`. A rest is also at least `age_share`
    of the age, so that a task becomes rarer in a long run. A cost above `counted_seconds` counts as
    that much.
    """

    share: float = _ALWAYS
    shortest_seconds: float = 0.0
    longest_seconds: float = _ALWAYS
    age_share: float = 0.0
    early_share: float = _ALWAYS
    early_seconds: float = 0.0
    counted_seconds: float = _ALWAYS

    def rest_seconds(self, age_seconds: float, cost_seconds: float) -> float:
        """How long to wait before the next run."""
        share = self.early_share if age_seconds < self.early_seconds else self.share
        by_cost = min(cost_seconds, self.counted_seconds) / share
        by_age = self.age_share * age_seconds
        return min(max(self.shortest_seconds, by_cost, by_age), self.longest_seconds)

    def scaled(self, factor: float) -> "Pace":
        """The same with a share of the cost: smaller shares, a longer longest rest."""
        return replace(
            self,
            share=self.share * factor,
            early_share=self.early_share * factor,
            longest_seconds=self.longest_seconds / factor,
        )


EVERY_TIME = Pace()


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """One row of the table. Without a pace of its own it runs whenever the schedule does."""

    name: str
    run: Callable[[], None]
    pace: Pace = EVERY_TIME


class Schedule:
    """Runs the tasks that are due, in their order; `pace` is that of the schedule as a whole.

    A task that raises is tried again after a rest, and dropped after five failures in a row.
    `on_drop` gets its name and the last error.
    """

    def __init__(
        self,
        tasks: Sequence[PeriodicTask],
        *,
        clock: Clock,
        cost_clock: Clock,
        pace: Pace = EVERY_TIME,
        on_drop: Callable[[str, Exception], None] = lambda name, error: None,
    ) -> None:
        self._clock, self._cost_clock = clock, cost_clock
        self._pace = pace
        self._on_drop = on_drop
        self._born = clock()
        self._rows = [_Row(task, self._born + task.pace.rest_seconds(0.0, 0.0)) for task in tasks]

    @property
    def names(self) -> list[str]:
        """The tasks that are still run."""
        return [row.task.name for row in self._rows]

    def run_due(self) -> float:
        """Run what is due now; the seconds to rest before the next call."""
        began = self._cost_clock()
        for row in tuple(self._rows):
            now = self._clock()
            if now >= row.due:
                self._run(row, now)
        cost_seconds = self._cost_clock() - began
        return self._pace.rest_seconds(self._clock() - self._born, cost_seconds)

    def _run(self, row: "_Row", now: float) -> None:
        began = self._cost_clock()
        try:
            row.task.run()
        except Exception as error:
            row.failures += 1
            row.due = now + _RETRY_SECONDS * 2 ** (row.failures - 1)
            if row.failures >= _MOST_FAILURES:
                self._drop(row, error)
            return
        row.failures = 0
        cost_seconds = self._cost_clock() - began
        row.due = now + row.task.pace.rest_seconds(now - self._born, cost_seconds)

    def _drop(self, row: "_Row", error: Exception) -> None:
        self._rows.remove(row)
        try:
            self._on_drop(row.task.name, error)
        except Exception:
            return  # the note is lost, the program is not disturbed


@dataclass(slots=True, eq=False)
class _Row:
    task: PeriodicTask
    due: float
    failures: int = 0
