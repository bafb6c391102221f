"""What the rules for causes look at: two looks, early and late, and what grew between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from ramledger.diagnose.filling import OWNERS, Filling, live_looks
from ramledger.run.timeline import Look, Timeline
from ramledger.units import format_bytes

_COVERED = 0.2  # of the run's growth must lie between the looks that are compared
_SETTLED = 2 / 3  # a look by name up to this share of the run is early
_NOT_JUDGED = ("files/", "imports/", "libraries/", "ramledger")
# modules whose objects are parts of everything, or ours
_PARTS = frozenset(
    {
        "builtins",
        "weakref",
        "collections",
        "types",
        "functools",
        "_thread",
        "re",
        "_ctypes",
        "ctypes",
        "contextlib",
        "inspect",
        "dataclasses",
        "importlib",
        "_frozen_importlib",
        "_frozen_importlib_external",
        "ramledger",
    }
)


@dataclass(frozen=True, slots=True)
class Case:
    """Two looks, early and late, and what grew between them."""

    early: Look
    late: Look
    generations: int
    growth: dict[str, int]  # by account, largest first
    total: int  # growth of all memory that is not filling
    timeline: Timeline
    looks: tuple[Look, ...] = ()
    is_covered: bool = True  # most of the run's growth lies between the two
    filling: frozenset[str] = frozenset()  # accounts that are on their way to a known end

    def is_judged(self, account: str) -> bool:
        return account not in self.filling and not account.startswith(_NOT_JUDGED)

    def share(self, *accounts: str) -> float:
        return sum(self.growth.get(a, 0) for a in accounts) / self.total if self.total else 0.0

    def owners(self) -> list[tuple[str, int]]:
        return [
            (account, growth)
            for account, growth in self.growth.items()
            if growth > 0 and self.late.accounts.get(account, {}).get("source") in OWNERS
        ]


def build_case(timeline: Timeline, fillings: Sequence[Filling]) -> Case | None:
    looks = live_looks(timeline)
    is_alive = len(looks) >= 2
    if not is_alive:  # of a short run, what is alive after its last line tells something, too
        looks = timeline.looks
    if len(looks) < 2:
        return None
    # the first look may fall into warm-up: compare with the second where there are enough
    early = looks[1 if len(looks) >= 4 else 0]
    return _case(timeline, fillings, looks, early, is_alive=is_alive)


def build_case_by_names(timeline: Timeline, fillings: Sequence[Filling]) -> Case | None:
    """What the user's names led to, some time before the last look and in it: nothing is counted.

    Callbacks look so while a training is young, where a census would cost too much.
    """
    lasts = [*timeline.looks_by_name[-1:], *live_looks(timeline)[-1:]]
    if not lasts:
        return None
    late = max(lasts, key=lambda look: look.t)
    earlier = [look for look in timeline.looks_by_name if look.t < late.t]
    if not earlier:
        return None
    settled = [look for look in earlier if look.t <= _SETTLED * late.t]
    early = settled[-1] if settled else earlier[0]
    return _case(timeline, fillings, [late], early, is_alive=True)


def _case(
    timeline: Timeline,
    fillings: Sequence[Filling],
    looks: Sequence[Look],
    early: Look,
    *,
    is_alive: bool,
) -> Case | None:
    late = looks[-1]
    filling = frozenset(
        name for look in looks for name in look.accounts if any(f.covers(name) for f in fillings)
    )
    names = [n for n in late.accounts if n not in filling and not n.startswith(_NOT_JUDGED)]
    growth = {n: late.resident(n) - early.resident(n) for n in names}
    growth["unexplained"] = late.unexplained_bytes - early.unexplained_bytes
    growth = dict(sorted(growth.items(), key=lambda item: -item[1]))
    generations = _generations_between(timeline, early, late)
    total = sum(g for g in growth.values() if g > 0)
    # what its locals held is free memory by then: shares of the growth tell nothing
    covered = is_alive and total >= _COVERED * _grown_between(timeline)
    if not covered and generations <= 0:
        return None
    return Case(
        early,
        late,
        max(1, generations),
        growth,
        max(1, total),
        timeline,
        tuple(looks),
        covered,
        filling,
    )


def _generations_between(timeline: Timeline, early: Look, late: Look) -> int:
    if not timeline.by_generation:
        return (late.generation or 0) - (early.generation or 0)
    return round(timeline.generation_at(late.t) - timeline.generation_at(early.t))


def _grown_between(timeline: Timeline) -> int:
    points = timeline.points
    return points[-1].anon - points[0].anon if points else 0


def kind_of_array(timeline: Timeline) -> str:
    loaded = {name for look in timeline.looks for name in look.accounts}
    kinds = (("libraries/torch", "torch.Tensor"), ("libraries/numpy", "numpy.ndarray"))
    return next((kind for library, kind in kinds if library in loaded), "bytes")


def growth_lines(case: Case) -> list[str]:
    return [
        f"{account}: {format_bytes(case.early.resident(account))} -> "
        f"{format_bytes(case.late.resident(account))}"
        if account != "unexplained"
        else f"unexplained: +{format_bytes(growth)}"
        for account, growth in list(case.growth.items())[:3]
        if growth > 0
    ]


def grown_classes(case: Case) -> list[tuple[str, int, int]]:
    """(class, instances before, after) of classes that grow steadily, most telling first.

    That is: a class named in the path of what grew, the user's own, few instances rather than the
    many parts they are made of, and the class that its module is named after.
    """
    paths = " ".join(str(o.get("path")) for o in case.late.large_objects)
    paths += " ".join(account for account, _ in case.owners())
    rows = []
    for name, count in case.late.counts.items():
        after = int(count)
        own = name in case.late.user_classes
        if not own and _is_common(name):
            continue
        before = _steady_start(name, case)
        if before is None:
            continue
        in_path = f"<{name.rpartition('.')[2]}>" in paths
        module, _, short = name.rpartition(".")
        is_main = module.rpartition(".")[2].lower() == short.lower()
        # one figure has one canvas and two axes: much the same number is the same number
        magnitude = round(log(max(1, after - before), 2))
        rows.append((not in_path, not own, magnitude, not is_main, after, (name, before, after)))
    return [row for *_, row in sorted(rows)]


def _steady_start(name: str, case: Case) -> int | None:
    """How many there were at first, if their number rises with the generations; else None."""
    at = case.timeline.generation_at
    by_generation = {  # of several looks at one generation the last
        round(at(look.t)): int(look.counts[name])
        for look in case.looks
        if name in look.counts and look.t >= case.early.t
    }
    seen = sorted(by_generation.items())
    if name not in case.early.counts:  # not worth listing then: what it began with may be known
        began = case.looks[0].counts.get(name) if case.looks else None
        if began is not None or name in case.late.user_classes:
            seen.insert(0, (round(at(case.early.t)), int(began or 0)))
    if len(seen) < 2:
        return None
    generations = max(1, seen[-1][0] - seen[0][0])
    if seen[-1][1] - seen[0][1] < max(2.0, 0.5 * generations):
        return None
    rises = sum(b[1] > a[1] for a, b in pairwise(seen))
    falls = sum(b[1] < a[1] for a, b in pairwise(seen))
    return seen[0][1] if rises >= 0.6 * (len(seen) - 1) and falls <= 0.2 * (len(seen) - 1) else None


def _is_common(name: str) -> bool:
    """Builtin parts that everything is made of."""
    return "." not in name or name.partition(".")[0] in _PARTS


def path_in(case: Case, account: str) -> str:
    if account.startswith("variables/"):
        return account.removeprefix("variables/")
    for item in case.late.large_objects:
        if item.get("account") == account:
            return str(item.get("path", account))
    return account


def graphs_in_containers(case: Case) -> list[tuple[int, str]]:
    """(new tensors with a graph, path) of containers that get ever more of them, most first."""
    before = {c.get("path"): int(c.get("graphs") or 0) for c in case.early.containers}
    grown = [
        (int(c.get("graphs") or 0) - before.get(c.get("path"), 0), str(c.get("path")))
        for c in case.late.containers
    ]
    return sorted((row for row in grown if row[0] > 0), reverse=True)


def tensor_path(case: Case) -> str:
    """Who holds the tensors that carry graphs."""
    for _, path in graphs_in_containers(case):
        return path
    for container in case.late.containers:
        if "Tensor" in str(container.get("of")):
            return str(container.get("path"))
    owners = [a for a, _ in case.owners() if a.startswith("variables/") and ":" in a]
    return owners[0].removeprefix("variables/") if owners else ""


def array_type(case: Case) -> str:
    grown = {
        name: row[1] - (case.early.sizes.get(name) or [0, 0])[1]
        for name, row in case.late.sizes.items()
    }
    if grown:
        return max(grown, key=lambda name: grown[name])
    return kind_of_array(case.timeline)
