"""Snapshots for the page: the ones that matter, names stored once, rows that sum to RSS."""

from collections.abc import Mapping, Sequence
from typing import Any

from ramledger.event_parts import ContainerContent
from ramledger.events import SnapshotEvent
from ramledger.ledger import Entry, Statement
from ramledger.report.object_rows import listed_objects, with_counts
from ramledger.run.one_snapshot import Snapshot
from ramledger.run.training_end import END
from ramledger.type_ranks import TypeRank, type_rank

MAX_MAIN_SNAPSHOTS = 240
MAX_OTHER_SNAPSHOTS = 6
MAX_OTHERS = 40  # processes
MAX_OBJECTS = 12
MAX_COUNTS = 40
MAX_CONTAINERS = 20
MAX_TEXT = 300


class Names:
    """Every distinct text once; elsewhere its number stands for it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        text = text[:MAX_TEXT]
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def snapshots_document(
    snapshots: Mapping[int, Sequence[SnapshotEvent]],
    main_pid: int | None,
    names: Names,
) -> list[dict[str, Any]]:
    """Snapshots of all processes in time order, more of them of the main process."""
    found: list[dict[str, Any]] = []
    others = sorted((p for p in snapshots if p != main_pid), key=lambda p: -len(snapshots[p]))
    first = [main_pid] if main_pid is not None and main_pid in snapshots else []
    for pid in [*first, *others][: 1 + MAX_OTHERS]:
        most = MAX_MAIN_SNAPSHOTS if pid == main_pid else MAX_OTHER_SNAPSHOTS
        found += [_snapshot(snapshot, names) for snapshot in chosen(snapshots[pid], most)]
    return sorted(found, key=lambda row: float(row["t"]))


def chosen(snapshots: Sequence[SnapshotEvent], most: int) -> list[SnapshotEvent]:
    """The first, the last, the largest, those with a name, and others spread between them."""
    # at exit the program's variables, and what they held, are gone
    live = [item for item in snapshots if item.phase != END] or list(snapshots)
    if len(live) <= most:
        return live
    peak = max(range(len(live)), key=lambda at: live[at].statement.rss_bytes)
    must = {0, len(live) - 1, peak}
    must |= set([at for at, item in enumerate(live) if item.label][: most // 4])
    spread = {round(at * (len(live) - 1) / (most - 1)) for at in range(most - len(must))}
    return [live[at] for at in sorted(must | spread)]


def _snapshot(snapshot: SnapshotEvent, names: Names) -> dict[str, Any]:
    statement = snapshot.statement
    return {
        "pid": snapshot.pid,
        "t": round(snapshot.t, 3),
        "generation": snapshot.generation,
        "phase": snapshot.phase,
        "label": snapshot.label,
        "rss": statement.rss_bytes,
        "unexplained": statement.unexplained_bytes,
        "threads": statement.threads,
        "swap": statement.swap_bytes,
        "accounts": _accounts(Snapshot.of(snapshot).entries, names),
        "objects": _objects(statement, names),
        "user": [names.number(name) for name in snapshot.user_classes[:MAX_COUNTS]],
        "counts": _counts(snapshot, names),
        "types": _types(snapshot, names),
        "containers": _containers(snapshot.containers, names),
        "graphs": snapshot.tensors_with_graph,
    }


def _accounts(entries: Mapping[str, Entry], names: Names) -> list[list[Any]]:
    return [
        [
            names.number(name),
            entry.resident_bytes,
            entry.reserved_bytes,
            entry.fill,
            entry.objects,
            names.number(entry.source),
            names.number(entry.note),
        ]
        for name, entry in entries.items()
    ]


def _objects(statement: Statement, names: Names) -> list[list[Any]]:
    """path, type, dtype, shape, resident, reserved, fill, account; the largest first."""
    largest = sorted(statement.large_objects, key=lambda item: -item.resident_bytes)
    return [
        [
            names.number(item.path),
            names.number(item.type),
            names.number(item.dtype),
            names.number(" × ".join(map(str, item.shape))),
            item.resident_bytes,
            item.reserved_bytes,
            item.fill,
            names.number(item.account),
        ]
        for item in largest[:MAX_OBJECTS]
    ]


def _counts(snapshot: SnapshotEvent, names: Names) -> list[list[int]]:
    """name, instances, rank; by rank: numbers of built-in types change all the time."""
    users = set(snapshot.user_classes)
    ranked = [(type_rank(name, users), name, n) for name, n in snapshot.live_objects.items()]
    rows = sorted(
        (row for row in ranked if row[0] is not TypeRank.HIDDEN),
        key=lambda row: (row[0], -row[2], row[1]),
    )
    return [[names.number(name), count, int(rank)] for rank, name, count in rows[:MAX_COUNTS]]


def _types(snapshot: SnapshotEvent, names: Names) -> list[list[int]]:
    """type, instances, bytes: the rows of the table of live objects."""
    rows = listed_objects(with_counts(snapshot))
    return [[names.number(row.type), row.count, row.bytes] for row in rows]


def _containers(containers: Sequence[ContainerContent], names: Names) -> list[list[Any]]:
    """path, type, length, what it holds, bytes."""
    rows = [
        [
            names.number(item.path),
            names.number(item.type),
            item.length,
            names.number(item.of),
            item.bytes,
        ]
        for item in containers
    ]
    return sorted(rows, key=lambda row: -int(row[2]))[:MAX_CONTAINERS]
