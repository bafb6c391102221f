"""Snapshots of one process as readers compare them: one name an owner, whatever frame was active.

Recordings name a variable as it was seen: `run.agent.log` in one snapshot, `self.log` in another,
and items of one container (`log[0]`, `log[1]`) one by one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ramledger.event_parts import ContainerContent, TensorflowFacts, ViewPins
from ramledger.events import NamesSnapshotEvent, SnapshotEvent
from ramledger.ledger import Entry, LargeObject, Statement, TypeCount

_MOST_ALIKE = 40  # names that end alike; of more, none is sure to be the same thing
_RARE_COLLECTION = 100_000  # a first threshold beyond this, or 0, is as good as none
_VARIABLES = "variables/"
_INDEX = re.compile(r"\[[^\]]*\]$")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot; entries by account."""

    t: float
    generation: int | None
    phase: str
    label: str
    statement: Statement
    entries: Mapping[str, Entry]
    containers: tuple[ContainerContent, ...]
    pinned_by_views: Mapping[str, ViewPins] = field(default_factory=dict)  # by account
    live_objects: Mapping[str, int] = field(default_factory=dict)  # by type
    user_classes: frozenset[str] = frozenset()
    tensors_with_graph: int = 0
    graph_depth: int = 0  # the longest history that a tensor carries
    graph_holders: Mapping[str, int] = field(default_factory=dict)  # by name, how far back
    tensorflow: TensorflowFacts | None = None
    collects: bool = True  # the garbage collector is on, at thresholds that are ever reached
    gc_frozen_objects: int = 0  # that gc.freeze() took out of the collector's sight
    frame_holders: frozenset[str] = frozenset()  # classes whose instances keep a frame
    record_classes: frozenset[str] = frozenset()  # the user's dataclasses and named tuples
    watched_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by bare class
    code_lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by owner or class
    sorted_accounts: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sorted_accounts", tuple(sorted(self.entries)))

    @property
    def large_objects(self) -> tuple[LargeObject, ...]:
        return self.statement.large_objects

    @property
    def types(self) -> tuple[TypeCount, ...]:
        return self.statement.types

    @property
    def unexplained_bytes(self) -> int:
        return self.statement.unexplained_bytes

    def resident(self, account: str) -> int:
        """Resident bytes of an account; 0 where it is not listed."""
        entry = self.entries.get(account)
        return entry.resident_bytes if entry is not None else 0

    @classmethod
    def of(cls, event: SnapshotEvent) -> "Snapshot":
        """The snapshot of an event, items of one container as one."""
        return cls(
            t=event.t,
            generation=event.generation,
            phase=event.phase,
            label=event.label,
            statement=event.statement,
            entries=_folded(event.statement.entries),
            containers=tuple(map(_whole, event.containers)),
            pinned_by_views={_INDEX.sub("", k): v for k, v in event.pinned_by_views.items()},
            live_objects=event.live_objects,
            user_classes=frozenset(event.user_classes),
            tensors_with_graph=event.tensors_with_graph,
            graph_depth=event.graph_depth,
            graph_holders=event.graph_holders,
            tensorflow=event.tensorflow,
            collects=event.gc_enabled and 0 < event.gc_threshold <= _RARE_COLLECTION,
            gc_frozen_objects=event.gc_frozen_objects,
            frame_holders=frozenset(event.frame_holders),
            record_classes=frozenset(event.record_classes),
            watched_paths=event.watched_paths,
            code_lines=event.code_lines,
        )

    @classmethod
    def of_names(cls, event: NamesSnapshotEvent) -> "Snapshot":
        """The snapshot of an event in which no object was counted."""
        return cls(
            t=event.t,
            generation=event.generation,
            phase=event.phase,
            label="",
            statement=event.statement,
            entries=_folded(event.statement.entries),
            containers=tuple(map(_whole, event.containers)),
        )


def aligned(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots with one name an account: the one that it has in the last snapshots."""
    known: dict[str, dict[str, int]] = {}  # by last attribute: names, and bytes reserved there
    result = []
    for snapshot in reversed(snapshots):
        names: dict[str, str] = {}
        taken: set[str] = set()
        elsewhere: dict[str, dict[str, int]] = {}  # by last attribute: names not in this snapshot
        for name, entry in snapshot.entries.items():
            tail = _tail(name)
            same = known.setdefault(tail, {})
            if tail not in elsewhere:
                elsewhere[tail] = {n: size for n, size in same.items() if n not in snapshot.entries}
            size = entry.reserved_bytes
            twin = _twin(name, size, elsewhere[tail]) if name not in same else ""
            if twin and twin not in taken:
                names[name] = twin
                taken.add(twin)
            else:
                same[name] = size
        result.append(_renamed(snapshot, names) if names else snapshot)
    result.reverse()
    return result


def _twin(name: str, size: int, others: Mapping[str, int]) -> str:
    """The one among other names of this last attribute that is the same thing; '' if unsure."""
    if not name.startswith(_VARIABLES) or len(others) > _MOST_ALIKE:
        return ""
    alike = [other for other in others if others[other] == size and size]
    deep = [other for other in others if other.count(".") == name.count(".")]
    return next((found[0] for found in (list(others), alike, deep) if len(found) == 1), "")


def _tail(account: str) -> str:
    return account.rpartition(".")[2] if account.startswith(_VARIABLES) else account


def _renamed(snapshot: Snapshot, names: Mapping[str, str]) -> Snapshot:
    containers = tuple(
        replace(c, account=names[c.account], path=_moved(c.path, c.account, names[c.account]))
        if c.account in names
        else c
        for c in snapshot.containers
    )
    entries = {
        names.get(name, name): replace(entry, account=names[name]) if name in names else entry
        for name, entry in snapshot.entries.items()
    }
    views = {names.get(name, name): pins for name, pins in snapshot.pinned_by_views.items()}
    return replace(snapshot, entries=entries, containers=containers, pinned_by_views=views)


def _moved(path: str, old: str, new: str) -> str:
    before = old.removeprefix(_VARIABLES)
    return new.removeprefix(_VARIABLES) + path.removeprefix(before)


def _whole(container: ContainerContent) -> ContainerContent:
    account = _INDEX.sub("", container.account)
    return container if account == container.account else replace(container, account=account)


def _folded(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Entries by account, items of one container (`log[0]`, `log[1]`) as one."""
    result: dict[str, Entry] = {}
    for entry in entries:
        name = entry.account
        if name.startswith(_VARIABLES):
            name = _INDEX.sub("", name)
        known = result.get(name)
        if known is not None:
            result[name] = replace(
                known,
                resident_bytes=known.resident_bytes + entry.resident_bytes,
                reserved_bytes=known.reserved_bytes + entry.reserved_bytes,
            )
        else:
            result[name] = entry if name == entry.account else replace(entry, account=name)
    return result
