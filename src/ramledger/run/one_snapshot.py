"""A snapshot as readers compare it: entries by owner, items of a container as one."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ramledger.event_parts import ContainerContent, TensorflowFacts, ViewPins
from ramledger.events import NamesSnapshotEvent, SnapshotEvent
from ramledger.ledger import Entry, LargeObject, Statement, TypeCount

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
