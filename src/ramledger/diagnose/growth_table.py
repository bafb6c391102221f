"""The growth of a run as one table, from which verdict, culprit and forecast are read.

Every account is a series over iterations, and one estimator says what each does: what stays, what
fills to a capacity, what rises and still rises at the end. Snapshots are sparse; the level and what
the allocators have handed out are dense, and a row can only leak if one of those does not deny it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ramledger.diagnose.capacities import capacity_of
from ramledger.ledger import Source
from ramledger.run.aligned_snapshots import Snapshot
from ramledger.run.shapes import Fit, GrowthStatement, Points, Shape, fit, growth_statement
from ramledger.run.shapes.filled_in import level_at
from ramledger.run.timeline import Point, Timeline
from ramledger.units import KIB, MIB

OWNERS = frozenset({Source.PATH, Source.CLAIM, Source.RECOGNIZED})
UNEXPLAINED = "unexplained"
PAGE = 4096.0
# file pages go when memory is short, imports happen once; ours is not the program's
_NOT_JUDGED = ("files/", "imports/", "libraries/", "ramledger", "python/startup")
_CUT = "other accounts"  # a snapshot with this row does not list all
# A leak below both is no reason to stop a training: 50 KiB an iteration fill 1 GiB in 20,000, and
# the kernel's counters and the allocator's own tables move by 2 MiB in runs in which nothing leaks.
LEAST_RATE_BYTES = 50 * KIB
LEAST_GROWTH_BYTES = 2 * MIB
_FEWEST_READINGS = 0.6  # of the iterations must have the allocators' books


@dataclass(frozen=True)
class GrowthTable:
    """The series of one process, judged; `at` is the iteration, or the stretch of time."""

    timeline: Timeline
    snapshots: Sequence[Snapshot]  # of the training
    accounts: Mapping[str, Points]
    capacities: Mapping[str, float]  # bytes at which an account ends, where that is known
    fits: Mapping[str, Fit] = field(default_factory=dict)  # of accounts

    @cached_property
    def fillings(self) -> list[str]:
        """Accounts that grew on their way to a known capacity."""
        return [name for name in self.capacities if _grown(self.accounts[name]) >= MIB]

    @cached_property
    def statement(self) -> GrowthStatement:
        """Rates of all accounts and `unexplained`, which sum to the rate of RSS."""
        points = self.timeline.points
        rss = [(float(p.generation), float(p.anon_bytes + p.file_bytes)) for p in points]
        parts = {name: series for name, series in self.accounts.items() if name != UNEXPLAINED}
        return growth_statement(
            parts, rss, rss[0][0], rss[-1][0], capacities=self.capacities, quantum=PAGE
        )

    @cached_property
    def level(self) -> Fit:
        """Anonymous memory, less what fills to a known capacity."""
        return self._dense(lambda point: float(point.anon_bytes), self.timeline.points)

    @cached_property
    def in_use(self) -> Fit | None:
        """What the allocators have handed out, less what fills; None where they do not say."""
        points = self.timeline.points
        known = [point for point in points if point.malloc_in_use_bytes is not None]
        if len(known) < _FEWEST_READINGS * len(points):
            return None
        return self._dense(lambda point: point.in_use_bytes, known)

    @property
    def dense(self) -> list[Fit]:
        """The witnesses that have a reading in every iteration."""
        return [self.level, self.in_use] if self.in_use is not None else [self.level]

    def _dense(self, value: Callable[[Point], float], points: Iterable[Point]) -> Fit:
        series = [
            (at := float(point.generation), value(point) - self.filled_at(at)) for point in points
        ]
        return fit(series, quantum=PAGE)

    def filled_at(self, at: float) -> float:
        """What fills to a known capacity; after the last snapshot, as it went on by its fit."""
        total = 0.0
        for name in self.fillings:
            points, one = self.accounts[name], self.fits[name]
            total += level_at(points, at) if at <= points[-1][0] else one.predict(at)[1]
        return total

    @cached_property
    def children(self) -> Fit:
        """Memory of the run's other processes."""
        return _fit_of(self.timeline, lambda point: float(point.children_bytes))

    @cached_property
    def shm(self) -> Fit:
        return _fit_of(self.timeline, lambda point: float(point.shm_bytes))

    def matters(self, found: Fit) -> bool:
        """Whether it rises at the end, and by enough to be worth a word."""
        points = self.timeline.points
        span = points[-1].generation - (found.onset if found.onset is not None else found.start)
        grown = found.rate * max(1.0, span)
        is_large = found.rate >= LEAST_RATE_BYTES and grown >= LEAST_GROWTH_BYTES
        return found.is_rising_at_end and is_large

    @cached_property
    def leaking(self) -> list[str]:
        """Accounts that rise in a line to the end, the fastest first."""
        found = [
            name
            for name, one in self.fits.items()
            if one.shape is Shape.LINEAR and self.is_judged(name) and self.matters(one)
        ]
        return sorted(found, key=lambda name: -self.fits[name].rate)

    def is_judged(self, account: str) -> bool:
        return account not in self.capacities and not account.startswith(_NOT_JUDGED)

    @property
    def is_rising(self) -> bool:
        """Whether a dense witness rises."""
        return any(self.matters(one) for one in self.dense)

    @property
    def is_decided(self) -> bool:
        """Whether one of them can tell rising from not rising."""
        return any(one.enough for one in self.dense)


def growth_table(timeline: Timeline) -> GrowthTable:
    """The table of a run with at least two points."""
    # what was before the end of the first iteration is start-up
    snapshots = [one for one in timeline.snapshots if one.t >= timeline.points[0].t]
    accounts = _series(timeline, snapshots)
    capacities = {
        name: capacity
        for name in accounts
        if (capacity := capacity_of(name, snapshots)) is not None
    }
    fits = {
        name: fit(points, capacity=capacities.get(name), quantum=PAGE)
        for name, points in accounts.items()
    }
    return GrowthTable(timeline, snapshots, accounts, capacities, fits)


def _series(timeline: Timeline, snapshots: Sequence[Snapshot]) -> dict[str, Points]:
    """By account; one that a cut list lacks is unknown there, in a whole list it is 0."""
    found: dict[str, list[tuple[float, float]]] = {}
    names = {name for snapshot in snapshots for name in snapshot.entries} - {_CUT}
    for snapshot in snapshots:
        at = timeline.generation_at(snapshot.t)
        found.setdefault(UNEXPLAINED, []).append((at, float(snapshot.unexplained_bytes)))
        for name in names:
            if name in snapshot.entries or _CUT not in snapshot.entries:
                found.setdefault(name, []).append((at, float(snapshot.resident(name))))
    return {name: tuple(points) for name, points in found.items()}


def _fit_of(timeline: Timeline, value: Callable[[Point], float]) -> Fit:
    return fit([(float(p.generation), value(p)) for p in timeline.points], quantum=PAGE)


def _grown(points: Points) -> float:
    values = [value for _, value in points]
    return max(values) - values[0] if values else 0.0
