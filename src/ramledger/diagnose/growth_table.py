"""The growth of a run as one table, from which verdict, culprit and forecast are read.

Every account is a series over iterations, and one estimator says what each does: what stays, what
fills to a capacity, what rises and still rises at the end. Snapshots are sparse; the level and what
the allocators have handed out are dense, and a row can only leak if one of those does not deny it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

from ramledger.diagnose import thresholds
from ramledger.diagnose.capacities import capacity_of
from ramledger.event_parts import ContainerContent
from ramledger.run.one_snapshot import Snapshot
from ramledger.run.shapes import Fit, GrowthStatement, Points, Shape, fit, growth_statement
from ramledger.run.shapes.filled_in import level_at
from ramledger.run.timeline import Outside, Point, Timeline

UNEXPLAINED = "unexplained"
NATIVE, ARRAYS_WITHOUT_OWNER = "native/in use", "arrays/no owner found"
FREE = ("allocator/free", "python/free")
PAGE = 4096.0
# file pages go when memory is short, imports happen once; ours is not the program's
_NOT_JUDGED = ("files/", "imports/", "libraries/", "ramledger", "python/startup")
_VARIABLES, _ROOT = "variables/", re.compile(r"\.(?!py:)|\[")
_CUT = "other accounts"  # a snapshot with this row does not list all


@dataclass(frozen=True)
class GrowthTable:
    """The series of one process, judged; `at` is the iteration, or the stretch of time."""

    timeline: Timeline
    snapshots: Sequence[Snapshot]  # of the training
    accounts: Mapping[str, Points]
    capacities: Mapping[str, float]  # bytes at which an account ends, where that is known
    fits: Mapping[str, Fit] = field(default_factory=dict)  # of accounts
    among: frozenset[str] | None = None  # only these accounts are judged, if given
    workers: Sequence["GrowthTable"] = ()  # the run's other processes, the fastest growing first
    _lengths: dict[str, Fit] = field(default_factory=dict, compare=False)  # of containers

    @cached_property
    def fillings(self) -> list[str]:
        """Accounts that grew on their way to a known capacity, or may have after one snapshot."""
        least = thresholds.FILLING_BYTES
        return [name for name in self.capacities if self._may_have_filled_by(name) >= least]

    def _may_have_filled_by(self, name: str) -> float:
        points = self.accounts[name]
        room = self.capacities[name] - points[0][1]
        return room if self._is_seen_once(name) else _grown(points)

    def _is_seen_once(self, name: str) -> bool:
        return len(self.accounts[name]) == 1 and len(self.snapshots) == 1

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
        points = self.timeline.points
        return self._dense(lambda point: float(point.anon_bytes), points, self.filled_at)

    @cached_property
    def in_use(self) -> Fit | None:
        """What the allocators have handed out, less what fills; None where they do not say."""
        points = self.timeline.points
        known = [point for point in points if point.malloc_in_use_bytes is not None]
        if len(known) < thresholds.GOOD_PART * len(points):
            return None
        allocated = [name for name in self.fillings if not self._is_reserved(name)]
        return self._dense(
            lambda point: point.in_use_bytes, known, lambda at: self._held_by(allocated, at)
        )

    @property
    def dense(self) -> list[Fit]:
        """The witnesses that have a reading in every iteration."""
        return [self.level, self.in_use] if self.in_use is not None else [self.level]

    def _dense(
        self,
        value: Callable[[Point], float],
        points: Iterable[Point],
        filled: Callable[[float], float],
    ) -> Fit:
        series = [(at := float(point.generation), value(point) - filled(at)) for point in points]
        return fit(series, quantum=thresholds.LEVEL_QUANTUM_BYTES)

    def filled_at(self, at: float) -> float:
        """What fills to a known capacity."""
        return self._held_by(self.fillings, at)

    def _held_by(self, names: Iterable[str], at: float) -> float:
        """Resident bytes; after the last snapshot, as the accounts go on by their fits."""
        first = min((self.accounts[name][0][0] for name in names), default=at)
        if at < first:
            held = self._held_by(names, first)
            return held + max(-held, min(0.0, self._level_at(at) - self._level_at(first)))
        total = 0.0
        once = [name for name in names if self._is_seen_once(name)]
        if once:
            total += self._filled_by_level(once, at)
        for name in names:
            if name in once:
                continue
            points, one = self.accounts[name], self.fits[name]
            after = min(self.capacities[name], max(points[-1][1], one.predict(at)[1]))
            total += level_at(points, at) if at <= points[-1][0] else after
        return total

    def _filled_by_level(self, names: Sequence[str], at: float) -> float:
        """Of accounts that one snapshot saw: the level's growth since, as far as there is room.

        What a known capacity can explain is no leak.
        """
        seen_at = self.accounts[names[0]][0][0]
        held = sum(self.accounts[name][0][1] for name in names)
        room = sum(self.capacities[name] for name in names) - held
        grown = self._level_at(at) - self._level_at(seen_at)
        return held + max(-held, min(room, grown))

    def _level_at(self, at: float) -> float:
        return level_at(self._levels, at)

    @cached_property
    def _levels(self) -> Points:
        return [(float(p.generation), float(p.anon_bytes)) for p in self.timeline.points]

    def _is_reserved(self, account: str) -> bool:
        """Whether it was allocated at once and is touched bit by bit: allocators say nothing."""
        known = [one.entries[account] for one in self.snapshots if account in one.entries]
        least = thresholds.NEARLY_ALL * known[-1].reserved_bytes
        return min(one.reserved_bytes for one in known) >= least

    @cached_property
    def whole_level(self) -> Fit:
        """Anonymous memory, with all that fills."""
        points = self.timeline.points
        return self._dense(lambda point: float(point.anon_bytes), points, lambda at: 0.0)

    def exceeds_fillings(self, level: Fit) -> bool:
        """Whether the level rises with them, and by more than they are known to."""
        filled = max(0.0, self.whole_level.rate - level.rate)
        return self.matters(self.whole_level) and level.rate >= thresholds.FILLING_ERROR * filled

    @cached_property
    def children(self) -> Fit:
        """Memory of the run's other processes less what fills in them; they keep their own time."""
        return _sampled(
            self.timeline, lambda at, row: row.children_bytes - self._filled_in_workers(at)
        )

    @cached_property
    def whole_children(self) -> Fit:
        """Their memory with all that fills."""
        return _sampled(self.timeline, lambda at, row: float(row.children_bytes))

    def _filled_in_workers(self, at: float) -> float:
        lived = [one for one in self.workers if one.fillings and one.lives_at(at)]
        return sum(one.filled_at(at) for one in lived)

    def lives_at(self, at: float) -> bool:
        points = self.timeline.points
        return points[0].generation - 1 <= at <= points[-1].generation + 1

    @cached_property
    def shm(self) -> Fit:
        return _sampled(self.timeline, lambda at, row: float(row.shm_bytes))

    def matters(self, found: Fit) -> bool:
        """Whether it rises in a line to the end, and by enough to be worth a word."""
        points = self.timeline.points
        span = points[-1].generation - (found.onset if found.onset is not None else found.start)
        grown = found.rate * max(1.0, span)
        is_large = grown >= thresholds.LEAST_GROWTH_BYTES
        is_fast = found.rate >= thresholds.LEAST_RATE_BYTES
        return found.shape is Shape.LINEAR and found.is_rising_at_end and is_large and is_fast

    @cached_property
    def leaking(self) -> list[str]:
        """Accounts that rise in a line to the end, the fastest first."""
        found = [
            name
            for name, one in self.fits.items()
            if self.is_judged(name) and self.matters(one) and (self.is_rising or self._is_late(one))
        ]
        return sorted(found, key=lambda name: -self.fits[name].rate)

    def _is_late(self, found: Fit) -> bool:
        """Whether a series of snapshots reaches the end: what it did later, only others can say."""
        points = self.timeline.points
        first, last = points[0].generation, points[-1].generation
        return last - found.stop <= thresholds.NEAR_END * (last - first)

    def until_full(self, growth: Fit) -> int:
        """Iterations until buffers that fill are full, if growth may be what comes with them.

        Elements have headers and holes between them. So growth that no name holds, and that is no
        faster than what fills, is judged when it no longer fills; 0 if it can be judged now.
        """
        if any(name.startswith(_VARIABLES) for name in self.leaking):
            return 0
        points = self.timeline.points
        first, last = points[0].generation, points[-1].generation
        filling = [(name, one) for name in self.fillings if (one := self.fits[name]).rate > 0]
        filled = sum(one.rate for _, one in filling)
        left = [self._full_at(name, one.rate) - last for name, one in filling]
        is_recent = bool(left) and max(left) > -thresholds.NEAR_END * (last - first)
        if not is_recent or not 0 < growth.rate <= filled:
            return 0
        return round(max(left) + thresholds.NEAR_END * (last - first)) + 1

    def _full_at(self, name: str, rate: float) -> float:
        """The iteration of the first snapshot that saw it full, or when it will be."""
        capacity, points = self.capacities[name], self.accounts[name]
        full = [at for at, size in points if size >= thresholds.NEARLY_ALL * capacity]
        return full[0] if full else points[-1][0] + (capacity - points[-1][1]) / rate

    def may_leak(self, account: str) -> bool:
        """Whether nothing says that it does not: it rises, or its points cannot tell."""
        one = self.fits.get(account)
        return self.is_judged(account) and (one is None or one.is_rising_at_end or not one.enough)

    def is_judged(self, account: str) -> bool:
        is_meant = self.among is None or account in self.among
        return is_meant and account not in self.capacities and not account.startswith(_NOT_JUDGED)

    def may_grow(self, container: ContainerContent) -> bool:
        """Whether a container gets longer to the end, or its lengths cannot tell."""
        if container.account in self.capacities or not self.is_judged(container.account):
            return False
        one = self._length(container.path)
        return one.is_rising_at_end or not one.enough

    def length_of(self, account: str) -> Fit | None:
        """Of the longest container whose elements the account has; None where it has none."""
        last = self.snapshots[-1].containers if self.snapshots else ()
        own = [one for one in last if one.account == account]
        return self._length(max(own, key=lambda one: one.length).path) if own else None

    def _length(self, path: str) -> Fit:
        if path not in self._lengths:
            points = [
                (self.timeline.generation_at(one.t), float(container.length))
                for one in self.snapshots
                for container in one.containers
                if container.path == path
            ]
            end = self.timeline.end_snapshot
            left = {c.path: c.length for c in end.containers} if end is not None else {}
            self._lengths[path] = fit(_to_end(self.timeline, points, left.get(path)), quantum=1.0)
        return self._lengths[path]

    @property
    def is_rising(self) -> bool:
        """Whether a dense witness rises."""
        return any(self.matters(one) for one in self.dense)

    @property
    def is_denied(self) -> bool:
        """Whether what is handed out clearly does not rise: rows of a few snapshots then err.

        Where the allocators do not say, the level speaks, which holes may keep flat for a while.
        """
        witness = self.in_use or self.level
        return self.is_decided(witness) and not self.matters(witness)

    @property
    def undecided(self) -> list[Fit]:
        """Those of the dense series that may hide a leak: more points would tell.

        Not /dev/shm, which is the whole machine's: others fill and empty it all the time.
        """
        inside = [self.whole_level, *self.dense]
        is_open = not any(self.is_decided(one) for one in inside)
        outside = [self.children, self.whole_children]
        outside_is_open = not any(self.is_decided(one) for one in outside)
        return [*(inside if is_open else ()), *(outside if outside_is_open else ())]

    def is_decided(self, found: Fit) -> bool:
        """Whether it can tell rising from not rising, or can hide nothing that matters."""
        span = found.stop - found.start
        hidden = max(0.0, found.rate_interval[1]) * span
        teeth = 0.0 if found.teeth is None else thresholds.HIDDEN_IN_TEETH * found.teeth.height
        least = max(thresholds.LEAST_GROWTH_BYTES, thresholds.NO_RISE * found.level, teeth)
        # it cannot have grown by more
        is_little = found.level + found.above < thresholds.LEAST_GROWTH_BYTES
        return found.enough or hidden < least or is_little or not found.points


def growth_table(timeline: Timeline, workers: Sequence[Timeline] = ()) -> GrowthTable:
    """The table of a run with at least two points, and of its other processes."""
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
    return GrowthTable(
        timeline, snapshots, accounts, capacities, fits, workers=[growth_table(w) for w in workers]
    )


def leak_inside(table: GrowthTable) -> Fit | None:
    """The growth of a leak in the process: of the level, of what is handed out, or of one owner.

    Allocator statistics have less noise; where their rate differs from that of the level, it is
    the level that ends the run, unless freed memory hides the leak from it.
    """
    level, in_use = table.level, table.in_use
    rises = table.matters(level) and (not table.fillings or table.exceeds_fillings(level))
    in_use_rises = in_use is not None and table.matters(in_use)
    # what is free is the level less what is handed out: those say it in every iteration
    owners = [name for name in table.leaking if name not in FREE]
    owner = table.fits[owners[0]] if owners and not table.is_denied else None
    if not rises:
        return in_use if in_use_rises and owner is not None else owner
    if in_use is None or not in_use_rises:
        return level
    is_same = abs(in_use.rate - level.rate) <= thresholds.SAME_RATE * level.rate
    return in_use if is_same and _doubt(in_use) < thresholds.SURER * _doubt(level) else level


def onset_generation(timeline: Timeline, growth: Fit) -> int | None:
    """The first generation that added to it; the onset is the end of the last one that did not.

    What grows in the first generations seen has grown from the first of all.
    """
    if not timeline.by_generation:
        return None
    first = timeline.points[0].generation
    onset = growth.onset if growth.onset is not None else growth.start
    if onset <= first + 1 and first <= thresholds.LATE_START:
        return 0
    return int(onset) + 1


def separate_leaks(table: GrowthTable, growth: Fit) -> list[GrowthTable]:
    """A table each, where owners of several names leak and together make up most of the growth.

    What begins with the same class or variable is one leak: an object that stays has many parts.
    """
    groups: dict[str, list[str]] = {}
    for name in table.leaking:
        if name.startswith(_VARIABLES):
            groups.setdefault(_ROOT.split(name, maxsplit=1)[0], []).append(name)
    rates = {root: sum(table.fits[name].rate for name in names) for root, names in groups.items()}
    large = [root for root, rate in rates.items() if rate >= thresholds.SEPARATE_LEAK * growth.rate]
    if len(large) < 2 or sum(rates[root] for root in large) < thresholds.MOST * growth.rate:
        return []
    return [replace(table, among=frozenset(groups[root]), _lengths={}) for root in large]


def growth_of(part: GrowthTable) -> Fit:
    """Of all its judged accounts together."""
    total: dict[float, float] = {}
    for name in part.among or ():
        for at, size in part.accounts[name]:
            total[at] = total.get(at, 0.0) + size
    return fit(list(total.items()), quantum=PAGE)


def _doubt(growth: Fit) -> float:
    low, high = growth.rate_interval
    return (high - low) / growth.rate


def _series(timeline: Timeline, snapshots: Sequence[Snapshot]) -> dict[str, Points]:
    """By account; one that a cut list lacks is unknown there, in a whole list it is 0."""
    found: dict[str, list[tuple[float, float]]] = {}
    names = {name for one in snapshots for name in one.entries} - {_CUT, ARRAYS_WITHOUT_OWNER}
    for snapshot in snapshots:
        at = timeline.generation_at(snapshot.t)
        found.setdefault(UNEXPLAINED, []).append((at, float(snapshot.unexplained_bytes)))
        for name in names:
            if name in snapshot.entries or _CUT not in snapshot.entries:
                found.setdefault(name, []).append((at, float(held(snapshot, name))))
    end = timeline.end_snapshot
    # the allocators' own accounts are others by then: only what a name leads to is compared
    left = {n: end.resident(n) for n in end.entries if n.startswith(_VARIABLES)} if end else {}
    return {
        name: tuple(_to_end(timeline, points, left.get(name))) for name, points in found.items()
    }


def _to_end(
    timeline: Timeline, points: list[tuple[float, float]], at_end: float | None
) -> list[tuple[float, float]]:
    """With what was still there after the training, unless some of it was freed by then."""
    last = float(timeline.points[-1].generation)
    if at_end is None or not points or at_end < points[-1][1] or points[-1][0] >= last:
        return points
    return [*points, (last, at_end)]


def held(snapshot: Snapshot, account: str) -> int:
    """Resident bytes; snapshots that do not look for arrays count those as native memory."""
    extra = snapshot.resident(ARRAYS_WITHOUT_OWNER) if account == NATIVE else 0
    return snapshot.resident(account) + extra


def _sampled(timeline: Timeline, value: Callable[[float, Outside], float]) -> Fit:
    """By samples, the median of each half iteration: samples are more frequent at the start."""
    first, last = timeline.points[0].t, timeline.points[-1].t
    halves: dict[int, list[tuple[float, float]]] = {}
    for row in timeline.outside:
        if first <= row.t <= last:
            at = timeline.generation_at(row.t)
            halves.setdefault(int(2 * at), []).append((at, value(at, row)))
    series = [
        (median(at for at, _ in some), median(size for _, size in some)) for some in halves.values()
    ]
    return fit(series, quantum=thresholds.LEVEL_QUANTUM_BYTES)


def _grown(points: Points) -> float:
    values = [value for _, value in points]
    return max(values) - values[0] if values else 0.0
