"""Containers that only grow, and what they hold: data, things of their own, or small owners."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ramledger.diagnose import thresholds
from ramledger.diagnose.code_lines import without_indices
from ramledger.diagnose.finding import Cause, Culprit, Explanation
from ramledger.diagnose.leak_evidence import (
    LeakEvidence,
    grown_classes,
    growth_lines,
    kind_of_array,
)
from ramledger.diagnose.pinned_objects import are_small_views, pinned_by, pinned_views
from ramledger.event_parts import ContainerContent
from ramledger.run.one_snapshot import Snapshot
from ramledger.units import format_bytes

_CALLABLES = frozenset({"method", "function", "functools.partial", "builtins.method"})
_SCALARS = frozenset({"int", "float", "bool", "str", "NoneType"})
_FIXED = ("tuple", "frozenset")  # what never grows itself
# small things that keep something large alive
_SMALL_OWNERS = frozenset({"re.Match", "memoryview", "frame", "traceback"})
_CONTAINERS = frozenset(
    f"{module}{name}"
    for module, name in product(
        ("", "builtins.", "collections."), ("list", "tuple", "dict", "set", "deque", "defaultdict")
    )
)


@dataclass(frozen=True, slots=True)
class _Grown:
    """The container that gained most between two snapshots."""

    path: str
    type: str
    of: str
    account: str
    before: int
    length: int
    gained_bytes: int
    added_in: tuple[str, ...]
    is_mixed: bool  # tuples of numbers and something large


def _is_most(group: Sequence[ContainerContent]) -> bool:
    """Whether the first, which is the largest, holds most: then it has a name of its own."""
    return group[0].bytes >= thresholds.NEARLY_ALL * sum(one.bytes for one in group)


def _together(containers: Iterable[ContainerContent]) -> list[ContainerContent]:
    """Those that differ in indices only as one: the hooks of all layers, the logs of all envs."""
    found: dict[str, list[ContainerContent]] = {}
    for one in sorted(containers, key=lambda one: -one.bytes):
        found.setdefault(without_indices(one.path, "[*]"), []).append(one)
    return [
        group[0]
        if len(group) == 1 or _is_most(group)
        else replace(
            group[0],
            path=path,
            length=sum(one.length for one in group),
            bytes=sum(one.bytes for one in group),
        )
        for path, group in found.items()
    ]


def _most_grown(evidence: LeakEvidence) -> _Grown | None:
    before = {c.path: c.length for c in _together(evidence.early.containers)}
    best: tuple[int, ContainerContent] | None = None
    for container in _together(evidence.late.containers):
        if container.type in _FIXED:
            continue
        length = container.length
        grown = length - before.get(container.path, 0)
        gained = round(container.bytes * grown / length) if length else 0
        least = thresholds.CLEARLY_MORE * best[0] if best else 0
        # of containers within one another the outer one, unless the inner one gained clearly more
        if grown > 0 and evidence.table.may_grow(container) and gained > least:
            best = (gained, container)
    if best is None or best[0] < thresholds.GOOD_PART * evidence.total:
        return None
    gained, container = best
    kind = _element_type(evidence.late, container)
    is_mixed = kind in _SCALARS and gained > thresholds.LARGE_ELEMENT_BYTES * container.length
    if is_mixed:
        kind = kind_of_array(evidence.timeline)
    return _Grown(
        container.path,
        container.type,
        kind,
        container.account,
        before.get(container.path, 0),
        container.length,
        gained,
        container.added_in,
        is_mixed,
    )


def holds_most(evidence: LeakEvidence) -> bool:
    """Whether one container gained most of what grew."""
    grown = _most_grown(evidence)
    return grown is not None and grown.gained_bytes >= thresholds.MOST * evidence.total


def growing_container(evidence: LeakEvidence) -> Explanation | None:
    grown = _most_grown(evidence)
    if grown is None:
        return None
    if are_small_views(evidence, grown.account):
        return pinned_views(evidence, grown.account, grown.path)
    is_small = grown.of.removeprefix("builtins.") in _SMALL_OWNERS
    if is_small and grown.gained_bytes > thresholds.LARGE_ELEMENT_BYTES * grown.length:
        return _small_owner(evidence, grown)
    row = _row_of(grown.of, evidence) if grown.of in evidence.late.user_classes else None
    # bound methods and keys of caches hold objects
    is_callable = grown.of in _CALLABLES
    may_hold = is_callable or grown.is_mixed or grown.of in _CONTAINERS
    rows = grown_classes(evidence) if may_hold else []
    if rows and (is_callable or rows[0][0] in evidence.late.user_classes):
        row = rows[0]
    if row is not None and _are_records(row, grown.gained_bytes, evidence):
        return _unbounded(evidence, replace(grown, of=row[0]))
    if row is not None or is_callable:
        return pinned_by(evidence, row or (grown.of, grown.before, grown.length), grown.path)
    return _unbounded(evidence, grown)


def container_by_name(evidence: LeakEvidence) -> Explanation | None:
    """The container that grew most, where objects were not counted: what it holds is not known."""
    grown = _most_grown(evidence)
    bounded = {c.path for c in evidence.late.containers if c.capacity is not None}
    if grown is None or grown.path in bounded:
        return None
    return replace(_unbounded(evidence, grown), is_guess=True)


def _unbounded(evidence: LeakEvidence, grown: _Grown) -> Explanation:
    return Explanation(
        Cause.UNBOUNDED_CONTAINER,
        Culprit(grown.of, grown.path),
        (
            f"len({grown.path}): {grown.before} -> {grown.length} ({grown.type} of {grown.of}), "
            f"about {format_bytes(grown.gained_bytes)} of {format_bytes(evidence.total)} growth",
            *growth_lines(evidence),
        ),
        f"{grown.path} is a {grown.type} that only grows: {_bound(grown.type)} or clear it every "
        "iteration",
        added_in=grown.added_in,
    )


def _bound(kind: str) -> str:
    if kind.rpartition(".")[2] in ("list", "deque"):
        return "bound it (collections.deque(maxlen=...))"
    return "remove entries that are no longer needed,"


def _small_owner(evidence: LeakEvidence, grown: _Grown) -> Explanation:
    return Explanation(
        Cause.PINNED_BY_SMALL_OWNER,
        Culprit(grown.of, grown.path),
        (f"len({grown.path}): {grown.before} -> {grown.length}", *growth_lines(evidence)),
        f"{grown.path} keeps {grown.of} objects, which are small but keep large ones alive: a "
        "regex match keeps its whole text, a frame keeps all locals of its function; store the "
        "values you need instead",
        added_in=grown.added_in,
    )


def _are_records(row: tuple[str, int, int], gained: int, evidence: LeakEvidence) -> bool:
    """Data, or many small instances, are what a container is for; others are things of their own.

    A frame that they keep is another story.
    """
    name, before, after = row
    if name in evidence.late.frame_holders:
        return False
    if name in evidence.late.record_classes:
        return True
    many = after - before >= thresholds.MANY * evidence.generations
    return many and gained <= thresholds.LARGE_RECORD_BYTES * (after - before)


def _element_type(snapshot: Snapshot, container: ContainerContent) -> str:
    """What a container holds in the end: of a list of lists, what is in those."""
    path, kind = container.path, container.of
    inner = {c.path: c.of for c in snapshot.containers}
    while kind in _CONTAINERS:  # ends, as each path is longer than the one before
        path += "[*]"
        below = [of for name, of in inner.items() if name == path or _parent(name) == path[:-3]]
        if not below:
            break
        kind = below[0]
    return kind


def _parent(path: str) -> str:
    return path.rpartition("[")[0]


def _row_of(kind: str, evidence: LeakEvidence) -> tuple[str, int, int] | None:
    return next((row for row in grown_classes(evidence) if row[0] == kind), None)
