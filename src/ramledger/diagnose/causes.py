"""Why memory leaks and what holds it: evidence from deep snapshots, most telling first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ramledger.diagnose.filling import Filling, live_looks
from ramledger.diagnose.finding import Cause, Culprit
from ramledger.diagnose.timeline import Look, Timeline
from ramledger.units import MIB, format_bytes, format_delta

_OWNERS = frozenset({"path", "claim", "recognized"})
_COVERED = 0.2  # of the run's growth must lie between the looks that are compared
_NATIVE = ("native/in use", "unexplained", "arrays/no owner found")
_LEAST_NATIVE = 256 * 1024  # bytes of native memory that an object may well hold
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
class Explanation:
    """The cause of a leak as far as it can be told."""

    cause: Cause
    culprit: Culprit = field(default_factory=Culprit)
    evidence: tuple[str, ...] = ()
    advice: str = ""
    confidence: float = 0.5


@dataclass(frozen=True, slots=True)
class _Case:
    """Two looks, early and late, and what grew between them."""

    early: Look
    late: Look
    generations: int
    growth: dict[str, int]  # by account, largest first
    total: int  # growth of all memory that is not filling
    timeline: Timeline
    looks: tuple[Look, ...] = ()
    is_covered: bool = True  # most of the run's growth lies between the two

    def share(self, *accounts: str) -> float:
        return sum(self.growth.get(a, 0) for a in accounts) / self.total if self.total else 0.0

    def owners(self) -> list[tuple[str, int]]:
        return [
            (account, growth)
            for account, growth in self.growth.items()
            if growth > 0 and self.late.accounts.get(account, {}).get("source") in _OWNERS
        ]


def explain_leak(timeline: Timeline, fillings: Sequence[Filling]) -> Explanation:
    """The first rule that its evidence supports."""
    case = _case(timeline, fillings)
    if case is None:
        return _from_books(timeline)
    for rule in _RULES if case.is_covered else _TELLING_RULES:
        found = rule(case)
        if found is not None:
            return found
    if not case.is_covered:
        return _from_books(timeline)
    return Explanation(Cause.UNKNOWN, evidence=tuple(_growth_lines(case)))


def _case(timeline: Timeline, fillings: Sequence[Filling]) -> _Case | None:
    looks = live_looks(timeline)
    if len(looks) < 2:
        return None
    # the first look may fall into warm-up: compare with the second where there are enough
    early, late = looks[1 if len(looks) >= 4 else 0], looks[-1]
    filling = {f.account for f in fillings}
    names = [n for n in late.accounts if n not in filling and not n.startswith(_NOT_JUDGED)]
    growth = {n: late.resident(n) - early.resident(n) for n in names}
    growth["unexplained"] = late.unexplained_bytes - early.unexplained_bytes
    growth = dict(sorted(growth.items(), key=lambda item: -item[1]))
    generations = (late.generation or 0) - (early.generation or 0)
    total = sum(g for g in growth.values() if g > 0)
    covered = total >= _COVERED * _grown_between(timeline)
    if not covered and generations <= 0:
        return None
    return _Case(
        early, late, max(1, generations), growth, max(1, total), timeline, tuple(looks), covered
    )


def _grown_between(timeline: Timeline) -> int:
    points = timeline.points
    return points[-1].anon - points[0].anon if points else 0


# ---- rules ---------------------------------------------------------------------------------------


def _graph(case: _Case) -> Explanation | None:
    grown = case.late.tensors_with_graph - case.early.tensors_with_graph
    if grown < max(6, case.generations):
        return None
    path = _tensor_path(case)
    held = f" held by {path}" if path else ""
    return Explanation(
        Cause.GRAPH_RETENTION,
        Culprit("torch.Tensor", path),
        (
            f"tensors that carry a grad_fn: {case.early.tensors_with_graph} -> "
            f"{case.late.tensors_with_graph}",
            *_growth_lines(case),
        ),
        f"tensors{held} keep their autograd graphs: store loss.item() or tensor.detach()",
        0.9,
    )


def _gc_off(case: _Case) -> Explanation | None:
    is_off = not (case.early.gc_enabled and case.late.gc_enabled)
    grown = _grown_classes(case)
    unreached = [a for a, _ in case.owners() if a.startswith("variables/<")]
    freed, collected = _given_back(case.timeline)
    in_cycles = freed >= case.total // 2 and collected >= sum(row[2] - row[1] for row in grown[:1])
    if is_off:
        applies = bool(unreached or grown) or freed >= case.total // 3
    else:  # on in name, but its thresholds are out of reach
        applies = bool(unreached and grown) and in_cycles
    if not applies:
        return None
    state = "gc.isenabled() is False" if is_off else "the garbage collector is on but does not run"
    return Explanation(
        Cause.GC_OFF,
        Culprit(
            grown[0][0] if grown else "",
            unreached[0].removeprefix("variables/") if unreached else "",
        ),
        (
            state,
            *(f"live {name}: {before} -> {after}" for name, before, after in grown[:3]),
            *([f"gc.collect() and malloc_trim(0) at the end gave {format_bytes(freed)} back"]
              if freed > MIB else []),
        ),
        "cyclic garbage is never collected: gc.enable() with its usual gc.set_threshold(), or "
        "gc.collect() once a generation; break the reference cycle with weakref",
        0.9 if is_off else 0.75,
    )  # fmt: skip


def _given_back(timeline: Timeline) -> tuple[int, int]:
    """(bytes, objects) that a collection and a trim at the end freed."""
    probe = timeline.probe or {}
    freed = int(probe.get("anon_bytes") or 0) - int(probe.get("after_trim_bytes") or 0)
    return freed, int(probe.get("collected_objects") or 0)


def _container(case: _Case) -> Explanation | None:
    before = {c.get("path"): int(c.get("length") or 0) for c in case.early.containers}
    best: tuple[int, dict[str, Any]] | None = None
    for container in case.late.containers:
        length, path = int(container.get("length") or 0), container.get("path")
        grown = length - before.get(path, 0)
        account = str(container.get("account", ""))
        size = int(container.get("bytes") or 0)
        gained = round(size * grown / length) if length else 0
        if grown > 0 and account in case.growth and gained > (best[0] if best else 0):
            best = (gained, dict(container))
    if best is None or best[0] < 0.3 * case.total:
        return None
    gained, container = best
    path, kind = str(container["path"]), str(container.get("of") or "")
    length = int(container["length"])
    return Explanation(
        Cause.UNBOUNDED_CONTAINER,
        Culprit(kind, path),
        (
            f"len({path}): {before.get(path, 0)} -> {length} ({container.get('type')} of {kind}), "
            f"about {format_bytes(gained)} of {format_bytes(case.total)} growth",
            *_growth_lines(case),
        ),
        f"{path} is a {container.get('type')} that only grows: bound it "
        "(collections.deque(maxlen=...)) or clear it every generation",
        0.9,
    )


def _pinned(case: _Case) -> Explanation | None:
    grown = _grown_classes(case)
    owners = case.owners()
    owned = sum(growth for _, growth in owners)
    if not grown or owned < 0.3 * case.total:
        return None
    account = owners[0][0]
    return _pinned_by(case, grown[0], _path_in(case, account))


def _pinned_by(case: _Case, row: tuple[str, int, int], path: str) -> Explanation:
    name, before, after = row
    small = path.startswith("<") or not path
    return Explanation(
        Cause.OBJECT_PINNED,
        Culprit(name, path),
        (f"live {name}: {before} -> {after}", *_growth_lines(case)),
        f"{name} instances stay alive"
        + (f", held by {path}" if path and not small else "")
        + ": drop the reference when they are done (registries, callbacks, caches such as "
        "functools.cache on a method); close() alone does not free them",
        0.85,
    )


def _pinned_native(case: _Case) -> Explanation | None:
    """Native memory that comes with objects whose number grows: figures, renderers, handles."""
    native = sum(max(0, case.growth.get(name, 0)) for name in _NATIVE)
    grown = [row for row in _grown_classes(case) if native >= _LEAST_NATIVE * (row[2] - row[1])]
    if native < 0.5 * case.total or not grown:
        return None
    return _pinned_by(case, grown[0], "")


def _held(case: _Case) -> Explanation | None:
    owners = case.owners()
    if not owners or owners[0][1] < 0.3 * case.total:
        return None
    account = owners[0][0]
    path = _path_in(case, account)
    large = [o for o in case.late.large_objects if o.get("account") == account]
    kind = str(large[0].get("type")) if large else _array_type(case)
    return Explanation(
        Cause.UNBOUNDED_CONTAINER,
        Culprit(kind, path),
        tuple(_growth_lines(case)),
        f"{path} only grows: bound it or clear it every generation",
        0.7,
    )


def _allocator(case: _Case) -> Explanation | None:
    if case.share("allocator/free", "python/free") < 0.5:
        return None
    return _allocator_explanation(_growth_lines(case), case.timeline)


def _allocator_explanation(lines: list[str], timeline: Timeline) -> Explanation:
    probe = timeline.probe or {}
    trimmed = int(probe.get("after_collect_bytes") or 0) - int(probe.get("after_trim_bytes") or 0)
    if trimmed > MIB:
        lines.append(f"malloc_trim(0) at the end gave {format_bytes(trimmed)} back")
    return Explanation(
        Cause.ALLOCATOR_RETENTION,
        Culprit("malloc", "allocator/free"),
        tuple(lines),
        "malloc keeps freed memory between small survivors: call malloc_trim(0) once a generation "
        "(ctypes.CDLL('libc.so.6').malloc_trim(0)), or start with MALLOC_MMAP_THRESHOLD_=65536",
        0.85,
    )


def _native(case: _Case) -> Explanation | None:
    if case.share(*_NATIVE) < 0.5:
        return None
    return Explanation(
        Cause.NATIVE_LEAK,
        Culprit("native memory", ""),
        (
            *_growth_lines(case),
            "no Python object, array or tensor accounts for it",
        ),
        "a native library does not free what it allocates: run the environment alone to see "
        "whether it is the one, and restart its process now and then until it is fixed",
        0.8,
    )


_RULES: tuple[Callable[[_Case], Explanation | None], ...] = (
    _graph,
    _gc_off,
    _container,
    _pinned,
    _held,
    _allocator,
    _pinned_native,
    _native,
)

# what tells even where looks were few and early: counts, not shares of the growth
_TELLING_RULES = (_graph, _gc_off, _container, _pinned)


# ---- without deep looks -----------------------------------------------------------------------


def _from_books(timeline: Timeline) -> Explanation:
    """What the allocators' own books tell when the run was too short for deep looks."""
    kept = [p for p in timeline.points if p.malloc_in_use is not None]
    if len(kept) < 2:
        return Explanation(Cause.UNKNOWN, evidence=("no deep snapshots to compare",))
    first, last = kept[len(kept) // 4], kept[-1]
    in_use = (last.malloc_in_use or 0) - (first.malloc_in_use or 0)
    free = (last.malloc_free or 0) - (first.malloc_free or 0)
    python = (last.python_used or 0) - (first.python_used or 0)
    evidence = (
        f"malloc in use {format_delta(in_use)}, malloc free {format_delta(free)}, "
        f"Python objects {format_delta(python)} since generation {first.generation}",
        "too few deep snapshots to name what holds it: a longer run would",
    )
    total = max(1, last.anon - first.anon)
    if free >= 0.6 * total:
        return _allocator_explanation(list(evidence), timeline)
    if python >= 0.5 * total:
        return Explanation(
            Cause.UNBOUNDED_CONTAINER, Culprit("Python objects"), evidence, _LOOK_LONGER, 0.5
        )
    left = (timeline.last_books or {}).get("malloc_in_use_bytes")
    if in_use >= 0.5 * total and isinstance(left, int):
        released = (last.malloc_in_use or 0) - left
        line = f"malloc in use fell by {format_bytes(max(0, released))} when the program ended"
        if released >= 0.5 * in_use:
            return Explanation(
                Cause.UNBOUNDED_CONTAINER, Culprit(_kind_of_array(timeline)), (*evidence, line),
                _LOOK_LONGER, 0.4,
            )  # fmt: skip
        return Explanation(Cause.UNKNOWN, evidence=(*evidence, line), advice=_LOOK_LONGER)
    return Explanation(Cause.UNKNOWN, evidence=evidence, advice=_LOOK_LONGER)


def _kind_of_array(timeline: Timeline) -> str:
    loaded = {name for look in timeline.looks for name in look.accounts}
    kinds = (("libraries/torch", "torch.Tensor"), ("libraries/numpy", "numpy.ndarray"))
    return next((kind for library, kind in kinds if library in loaded), "bytes")


_LOOK_LONGER = "run more generations, or with `ramledger run --budget 0.1`, to see what holds it"


# ---- evidence ------------------------------------------------------------------------------------


def _growth_lines(case: _Case) -> list[str]:
    return [
        f"{account}: {format_bytes(case.early.resident(account))} -> "
        f"{format_bytes(case.late.resident(account))}"
        if account != "unexplained"
        else f"unexplained: +{format_bytes(growth)}"
        for account, growth in list(case.growth.items())[:3]
        if growth > 0
    ]


def _grown_classes(case: _Case) -> list[tuple[str, int, int]]:
    """(class, instances before, after) of classes that grow steadily, most telling first.

    That is: a class named in the path of what grew, the user's own, few instances rather than the
    many parts they are made of, and the class that its module is named after.
    """
    paths = " ".join(str(o.get("path")) for o in case.late.large_objects)
    paths += " ".join(account for account, _ in case.owners())
    rows = []
    for name, after in case.late.counts.items():
        own = name in case.late.user_classes
        if not own and _is_common(name):
            continue
        before = _steady_start(name, case)
        if before is None:
            continue
        in_path = f"<{name.rpartition('.')[2]}>" in paths
        module, _, short = name.rpartition(".")
        is_main = module.rpartition(".")[2].lower() == short.lower()
        rows.append((not in_path, not own, after, not is_main, (name, before, int(after))))
    return [row for *_, row in sorted(rows)]


def _steady_start(name: str, case: _Case) -> int | None:
    """How many there were at first, if their number rises with the generations; else None."""
    seen = [
        (look.generation or 0, int(look.counts[name]))
        for look in case.looks
        if name in look.counts and look.t >= case.early.t
    ]
    if name in case.late.user_classes and name not in case.early.counts:
        seen.insert(0, (case.early.generation or 0, 0))
    if len(seen) < 2:
        return None
    generations = max(1, seen[-1][0] - seen[0][0])
    if seen[-1][1] - seen[0][1] < max(1.0, 0.5 * generations):
        return None
    rises = sum(b[1] > a[1] for a, b in pairwise(seen))
    falls = sum(b[1] < a[1] for a, b in pairwise(seen))
    return seen[0][1] if rises >= 0.6 * (len(seen) - 1) and falls <= 0.2 * (len(seen) - 1) else None


def _is_common(name: str) -> bool:
    """Builtin parts that everything is made of."""
    return "." not in name or name.partition(".")[0] in _PARTS


def _path_in(case: _Case, account: str) -> str:
    if account.startswith("variables/"):
        return account.removeprefix("variables/")
    for item in case.late.large_objects:
        if item.get("account") == account:
            return str(item.get("path", account))
    return account


def _tensor_path(case: _Case) -> str:
    for container in case.late.containers:
        if "Tensor" in str(container.get("of")):
            return str(container.get("path"))
    owners = [a for a, _ in case.owners() if a.startswith("variables/")]
    return owners[0].removeprefix("variables/") if owners else ""


def _array_type(case: _Case) -> str:
    grown = {
        name: row[1] - (case.early.sizes.get(name) or [0, 0])[1]
        for name, row in case.late.sizes.items()
    }
    if grown:
        return max(grown, key=lambda name: grown[name])
    return _kind_of_array(case.timeline)
