"""Why memory leaks and what holds it: evidence from deep snapshots, most telling first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ramledger.diagnose.filling import Filling, live_looks
from ramledger.diagnose.finding import Cause, Culprit
from ramledger.diagnose.timeline import Look, Timeline
from ramledger.units import MIB, format_bytes

_OWNERS = frozenset({"path", "claim", "recognized"})
_PARTS = frozenset({"builtins", "weakref", "collections", "types", "functools", "_thread", "re"})


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
        return Explanation(Cause.UNKNOWN, evidence=("no deep snapshots to compare",))
    for rule in _RULES:
        found = rule(case)
        if found is not None:
            return found
    return Explanation(Cause.UNKNOWN, evidence=tuple(_growth_lines(case)))


def _case(timeline: Timeline, fillings: Sequence[Filling]) -> _Case | None:
    looks = live_looks(timeline)
    if len(looks) < 2:
        looks = timeline.looks
    if len(looks) < 2:
        return None
    # the first look may fall into warm-up: compare with the second where there are enough
    early, late = looks[1 if len(looks) >= 4 else 0], looks[-1]
    filling = {f.account for f in fillings}
    names = [n for n in late.accounts if n not in filling and not n.startswith("files/")]
    growth = {n: late.resident(n) - early.resident(n) for n in names}
    growth["unexplained"] = late.unexplained_bytes - early.unexplained_bytes
    growth = dict(sorted(growth.items(), key=lambda item: -item[1]))
    generations = (late.generation or 0) - (early.generation or 0)
    total = sum(g for g in growth.values() if g > 0)
    return _Case(early, late, max(1, generations), growth, max(1, total), timeline)


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
    if case.early.gc_enabled and case.late.gc_enabled:
        return None
    grown = _grown_classes(case)
    probe = case.timeline.probe or {}
    freed = int(probe.get("anon_bytes") or 0) - int(probe.get("after_collect_bytes") or 0)
    unreached = [a for a, _ in case.owners() if a.startswith("variables/<")]
    if not unreached and freed < case.total // 3 and not grown:
        return None
    kind = grown[0][0] if grown else ""
    return Explanation(
        Cause.GC_OFF,
        Culprit(kind, unreached[0].removeprefix("variables/") if unreached else ""),
        (
            "gc.isenabled() is False",
            *(f"live {name}: {before} -> {after}" for name, before, after in grown[:3]),
            *([f"gc.collect() at the end gave {format_bytes(freed)} back"] if freed > MIB else []),
        ),
        "the garbage collector is off: gc.enable(), or gc.collect() once a generation; "
        "break the reference cycle with weakref",
        0.9,
    )


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
    grown = [
        row for row in _grown_classes(case) if row[2] - row[1] >= max(2, case.generations // 2)
    ]
    owners = case.owners()
    owned = sum(growth for _, growth in owners)
    if not grown or owned < 0.3 * case.total:
        return None
    name, before, after = grown[0]
    account = owners[0][0]
    path = _path_in(case, account)
    cause = Cause.OBJECT_PINNED
    return Explanation(
        cause,
        Culprit(name, path),
        (f"live {name}: {before} -> {after}", *_growth_lines(case)),
        f"{name} instances stay alive"
        + (f", held by {path}" if path else "")
        + ": drop the reference when they are done; close() alone does not free them",
        0.85,
    )


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
    probe = case.timeline.probe or {}
    trimmed = int(probe.get("after_collect_bytes") or 0) - int(probe.get("after_trim_bytes") or 0)
    lines = [*_growth_lines(case)]
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
    if case.share("native/in use", "unexplained", "arrays/no owner found") < 0.5:
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
    _native,
)


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
    """(class, instances before, after), most telling first.

    That is: a class named in the path of what grew, the user's own, then by steadiness: a class
    with few instances that grows each generation says more than the parts it is made of.
    """
    paths = " ".join(str(o.get("path")) for o in case.late.large_objects)
    paths += " ".join(account for account, _ in case.owners())
    rows = []
    for name, after in case.late.counts.items():
        before = int(case.early.counts.get(name, 0))
        own = name in case.late.user_classes
        if after - before < max(1, case.generations // 2) or (not own and _is_common(name)):
            continue
        in_path = f"<{name.rpartition('.')[2]}>" in paths
        rows.append((not in_path, not own, after, (name, before, int(after))))
    return [row for *_, row in sorted(rows)]


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
    return max(grown, key=lambda name: grown[name]) if grown else "numpy.ndarray"
