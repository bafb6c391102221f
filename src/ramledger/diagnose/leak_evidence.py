"""What the rules for causes compare: an early and a late snapshot, and what grew between them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from ramledger.diagnose import thresholds
from ramledger.diagnose.capacities import OWNERS
from ramledger.diagnose.growth_table import ARRAYS_WITHOUT_OWNER, GrowthTable, held
from ramledger.run.one_snapshot import Snapshot
from ramledger.run.shapes import fit
from ramledger.run.timeline import Timeline
from ramledger.type_ranks import TypeRank, type_rank
from ramledger.units import format_bytes

_LOCAL = "():"
# modules of objects that everything is made of
_PARTS = frozenset({"weakref", "collections", "functools", "_thread"})
_STORAGE = "torch.storage."  # one for each tensor that somebody asked for its storage


@dataclass(frozen=True, slots=True)
class LeakEvidence:
    """Two snapshots, early and late, and what grew between them."""

    early: Snapshot
    late: Snapshot
    generations: int
    growth: dict[str, int]  # by account, largest first
    total: int  # growth of all memory that is not filling
    table: GrowthTable
    snapshots: tuple[Snapshot, ...] = ()
    is_covered: bool = True  # most of the run's growth lies between the two

    @property
    def timeline(self) -> Timeline:
        return self.table.timeline

    def is_judged(self, account: str) -> bool:
        return self.table.may_leak(account)

    def rise_of(self, count: Callable[[Snapshot], int]) -> bool | None:
        """Whether a count rises to the end over all snapshots; None where they cannot tell."""
        at = self.timeline.generation_at
        one = fit([(at(s.t), float(count(s))) for s in self.snapshots], quantum=1.0)
        return one.is_rising_at_end if one.enough else None

    def share(self, *accounts: str) -> float:
        return sum(self.growth.get(a, 0) for a in accounts) / self.total if self.total else 0.0

    def owners(self) -> list[tuple[str, int]]:
        return [
            (account, growth)
            for account, growth in self.growth.items()
            if growth > 0 and (entry := self.late.entries.get(account)) and entry.source in OWNERS
        ]


def collect_evidence(table: GrowthTable, onset: float) -> LeakEvidence | None:
    """What grew between two snapshots since the leak began; None with fewer than two."""
    snapshots = list(table.snapshots)
    is_alive = len(snapshots) >= 2
    if not is_alive:  # of a short run, what is alive after its last line is evidence, too
        snapshots = table.timeline.snapshots
    if len(snapshots) < 2:
        return None
    since = [one for one in snapshots if table.timeline.generation_at(one.t) >= onset - 1]
    if len(since) < 2:
        since = snapshots[-2:]
    # the first one may fall into warm-up: compare with the second where there are enough
    early = since[1 if len(since) >= thresholds.SNAPSHOTS_TO_CHOOSE else 0]
    return _between(table, snapshots, early, is_alive=is_alive)


def evidence_by_names(table: GrowthTable) -> LeakEvidence | None:
    """What grew between two snapshots of what the user's names lead to: no object is counted.

    Callbacks take these while a training is young, where counting would cost too much.
    """
    timeline = table.timeline
    lasts = [*timeline.names_snapshots[-1:], *timeline.snapshots[-1:]]
    if not lasts:
        return None
    late = max(lasts, key=lambda snapshot: snapshot.t)
    earlier = [snapshot for snapshot in timeline.names_snapshots if snapshot.t < late.t]
    if not earlier:
        return None
    settled = [snapshot for snapshot in earlier if snapshot.t <= thresholds.EARLY_NAMES * late.t]
    early = settled[-1] if settled else earlier[0]
    return _between(table, [late], early, is_alive=True)


def _between(
    table: GrowthTable, snapshots: Sequence[Snapshot], early: Snapshot, *, is_alive: bool
) -> LeakEvidence | None:
    timeline, late = table.timeline, snapshots[-1]
    names = [name for name in late.entries if table.may_leak(name)]
    growth = {n: held(late, n) - held(early, n) for n in names if n != ARRAYS_WITHOUT_OWNER}
    growth["unexplained"] = late.unexplained_bytes - early.unexplained_bytes
    growth = dict(sorted(growth.items(), key=lambda item: -item[1]))
    generations = _generations_between(timeline, early, late)
    total = sum(g for g in growth.values() if g > 0)
    # after the last line, what locals held is free memory: shares of the growth mean nothing
    covered = is_alive and total >= thresholds.MORE_THAN_CHANCE * _grown_between(timeline)
    if not covered and generations <= 0:
        return None
    return LeakEvidence(
        early, late, max(1, generations), growth, max(1, total), table, tuple(snapshots), covered
    )


def _generations_between(timeline: Timeline, early: Snapshot, late: Snapshot) -> int:
    if not timeline.by_generation:
        return (late.generation or 0) - (early.generation or 0)
    return round(timeline.generation_at(late.t) - timeline.generation_at(early.t))


def _grown_between(timeline: Timeline) -> int:
    points = timeline.points
    return points[-1].anon_bytes - points[0].anon_bytes if points else 0


def kind_of_array(timeline: Timeline) -> str:
    loaded = {name for snapshot in timeline.snapshots for name in snapshot.entries}
    kinds = (("libraries/torch", "torch.Tensor"), ("libraries/numpy", "numpy.ndarray"))
    return next((kind for library, kind in kinds if library in loaded), "bytes")


def growth_lines(evidence: LeakEvidence) -> list[str]:
    return [
        f"{account}: {format_bytes(evidence.early.resident(account))} -> "
        f"{format_bytes(evidence.late.resident(account))}"
        if account != "unexplained"
        else f"unexplained: +{format_bytes(growth)}"
        for account, growth in list(evidence.growth.items())[:3]
        if growth > 0
    ]


def grown_classes(evidence: LeakEvidence) -> list[tuple[str, int, int]]:
    """(class, instances before, after) of classes that grow steadily, the best culprit first.

    The best culprit is named in the path of what grew, is the user's own, has few instances rather
    than the many parts they are made of, and is the class that its module is named after.
    """
    paths = " ".join(item.path for item in evidence.late.large_objects)
    paths += " ".join(account for account, _ in evidence.owners())
    rows = []
    for name, after in evidence.late.live_objects.items():
        own = name in evidence.late.user_classes
        if not own and _is_common(name):
            continue
        before = _steady_start(name, evidence)
        if before is None:
            continue
        in_path = f"<{name.rpartition('.')[2]}>" in paths
        module, _, short = name.rpartition(".")
        is_main = module.rpartition(".")[2].lower() == short.lower()
        # one figure has one canvas and two axes: much the same number is the same number
        magnitude = round(log(max(1, after - before), 2))
        rows.append((not in_path, not own, magnitude, not is_main, after, (name, before, after)))
    return [row for *_, row in sorted(rows)]


def _steady_start(name: str, evidence: LeakEvidence) -> int | None:
    """How many there were at first, if their number rises with the generations; else None."""
    at = evidence.timeline.generation_at
    by_generation = {  # of several snapshots at one generation the last
        round(at(snapshot.t)): snapshot.live_objects[name]
        for snapshot in evidence.snapshots
        if name in snapshot.live_objects and snapshot.t >= evidence.early.t
    }
    seen = sorted(by_generation.items())
    if name not in evidence.early.live_objects:  # not listed then: its first count may be known
        began = evidence.snapshots[0].live_objects.get(name) if evidence.snapshots else None
        if began is not None or name in evidence.late.user_classes:
            seen.insert(0, (round(at(evidence.early.t)), began or 0))
    if len(seen) < 2:
        return None
    generations = max(1, seen[-1][0] - seen[0][0])
    least = max(thresholds.LEAST_INSTANCES, thresholds.EVERY_ITERATION * generations)
    if seen[-1][1] - seen[0][1] < least:
        return None
    steps = len(seen) - 1
    rises = sum(b[1] > a[1] for a, b in pairwise(seen))
    falls = sum(b[1] < a[1] for a, b in pairwise(seen))
    often, seldom = thresholds.MOST * steps, thresholds.MORE_THAN_CHANCE * steps
    return seen[0][1] if rises > often and falls <= seldom else None


def _is_common(name: str) -> bool:
    """Parts that everything is made of, what imports leave behind, and our own."""
    is_part = "." not in name or name.partition(".")[0] in _PARTS or name.startswith(_STORAGE)
    return is_part or type_rank(name) is TypeRank.HIDDEN


def path_in(evidence: LeakEvidence, account: str) -> str:
    if account.startswith("variables/"):
        return account.removeprefix("variables/")
    for item in evidence.late.large_objects:
        if item.account == account:
            return item.path
    return account


def graphs_in_containers(evidence: LeakEvidence) -> list[tuple[int, str]]:
    """(new tensors with a graph, path) of containers that gain such tensors, most first."""
    before = {c.path: c.graphs for c in evidence.early.containers}
    grown = [(c.graphs - before.get(c.path, 0), c.path) for c in evidence.late.containers]
    return sorted((row for row in grown if row[0] > 0), reverse=True)


def tensor_path(evidence: LeakEvidence) -> str:
    """Who holds the tensors that carry graphs."""
    gained = graphs_in_containers(evidence)
    grown = evidence.late.tensors_with_graph - evidence.early.tensors_with_graph
    sure = [path for count, path in gained if count >= thresholds.GOOD_PART * grown]
    rest = [path for _, path in gained]
    lasting = [*_deeper_holders(evidence), *_lasting_holders(evidence)]
    for path in (*sure, *lasting, *rest):
        return path
    for container in evidence.late.containers:
        if "Tensor" in container.of and evidence.table.may_grow(container):
            return container.path
    owners = [a for a, _ in evidence.owners() if a.startswith("variables/")]
    owners = [a for a in owners if not a.startswith(("variables/<", "variables/other"))]
    return owners[0].removeprefix("variables/") if owners else ""


def _deeper_holders(evidence: LeakEvidence) -> list[str]:
    """Names whose tensor's graph goes back farther than before, the deepest first."""
    before, after = evidence.early.graph_holders, evidence.late.graph_holders
    gained = {path: depth - before[path] for path, depth in after.items() if path in before}
    return sorted((path for path in gained if gained[path] > 0), key=lambda path: -gained[path])


def _lasting_holders(evidence: LeakEvidence) -> list[str]:
    """Names that lead to a graph in most snapshots; a variable of a function may be in use."""
    since = [one for one in evidence.snapshots if one.t >= evidence.early.t]
    seen: Counter[str] = Counter()
    for one in since:
        seen.update({*one.graph_holders, *(c.path for c in one.containers if c.graphs)})
    lasting = [path for path, count in seen.items() if count >= thresholds.MOST * len(since)]
    return sorted(lasting, key=lambda path: (_LOCAL in path, -seen[path], path))


def array_type(evidence: LeakEvidence) -> str:
    before = {row.type: row.bytes for row in evidence.early.types}
    grown = {row.type: row.bytes - before.get(row.type, 0) for row in evidence.late.types}
    if grown:
        return max(grown, key=lambda name: grown[name])
    return kind_of_array(evidence.timeline)
