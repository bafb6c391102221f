"""Deep snapshots for the page: the ones that matter, names stored once, rows that sum to RSS."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ramledger.errors import ConfigError
from ramledger.ledger import Entry, Statement
from ramledger.recording import Event
from ramledger.run.aligned_snapshots import Snapshot
from ramledger.run.ending import AT_EXIT
from ramledger.run.iterations import whole

MAX_MAIN_LOOKS = 240
MAX_OTHER_LOOKS = 6
MAX_LOOKED_INTO = 40  # processes
MAX_OBJECTS = 12
MAX_COUNTS = 40
MAX_CONTAINERS = 20
MAX_TEXT = 300


class Names:
    """Every distinct text once; elsewhere its number stands for it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: Any) -> int:
        text = str(text)[:MAX_TEXT]
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def looks_document(
    snapshots: Mapping[int, Sequence[Event]],
    main_pid: int | None,
    names: Names,
    aligned: Sequence[Snapshot] = (),
) -> list[dict[str, Any]]:
    """Looks of all processes in time order, the main process's in detail.

    `aligned` are the main process's looks with one name a variable, however it was seen.
    """
    same_name = {snapshot.t: snapshot.entries for snapshot in aligned}
    found: list[dict[str, Any]] = []
    others = sorted((p for p in snapshots if p != main_pid), key=lambda p: -len(snapshots[p]))
    first = [main_pid] if main_pid is not None and main_pid in snapshots else []
    for pid in [*first, *others][: 1 + MAX_LOOKED_INTO]:
        most = MAX_MAIN_LOOKS if pid == main_pid else MAX_OTHER_LOOKS
        for event in chosen(snapshots[pid], most):
            look = _look(pid, event, names)
            if look is not None and pid == main_pid:
                _rename(look, same_name.get(float(event["t"]), {}), names)
            if look is not None:
                found.append(look)
    return sorted(found, key=lambda look: float(look["t"]))


def chosen(events: Sequence[Event], most: int) -> list[Event]:
    """The first, the last, the largest, those with a name, and others spread between them."""
    # at exit the program's variables, and what they held, are gone
    live = [e for e in events if e.get("phase") != AT_EXIT] or list(events)
    if len(live) <= most:
        return live
    must = {0, len(live) - 1, max(range(len(live)), key=lambda at: _rss(live[at]))}
    must |= set([at for at, e in enumerate(live) if e.get("label")][: most // 4])
    spread = {round(at * (len(live) - 1) / (most - 1)) for at in range(most - len(must))}
    return [live[at] for at in sorted(must | spread)]


def _rss(event: Event) -> int:
    statement = event.get("statement")
    try:
        return whole(statement["rss_bytes"]) if isinstance(statement, Mapping) else 0
    except (LookupError, TypeError, ValueError):
        return 0


def _look(pid: int, event: Event, names: Names) -> dict[str, Any] | None:
    try:
        statement = Statement.from_dict(event["statement"])
        return {
            "pid": pid,
            "t": round(float(event["t"]), 3),
            "generation": None if event.get("generation") is None else whole(event["generation"]),
            "phase": str(event.get("phase") or ""),
            "label": str(event.get("label") or ""),
            "rss": statement.rss_bytes,
            "unexplained": statement.unexplained_bytes,
            "threads": statement.threads,
            "swap": statement.swap_bytes,
            "accounts": [
                [
                    names.number(e.account),
                    e.resident_bytes,
                    e.reserved_bytes,
                    e.fill,
                    e.objects,
                    names.number(e.source),
                    names.number(e.note),
                ]
                for e in statement.entries
            ],
            "objects": _objects(statement, names),
            "user": [names.number(name) for name in _user_classes(event)],
            "counts": _counts(event, names),
            "containers": _containers(event.get("containers") or (), names),
            "graphs": whole(event.get("tensors_with_graph") or 0),
        }
    except (ArithmeticError, AttributeError, ConfigError, LookupError, TypeError, ValueError):
        return None


def _rename(look: dict[str, Any], entries: Mapping[str, Entry], names: Names) -> None:
    """Accounts under the names they have in all looks, where these sum to the same."""
    rows: list[list[Any]] = [
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
    if sum(row[1] for row in rows) == sum(row[1] for row in look["accounts"]):
        look["accounts"] = rows


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


def _user_classes(event: Event) -> list[str]:
    """Classes of the user's own code, which counts list even when there are few instances."""
    found = event.get("user_classes")
    return [str(name) for name in found[:MAX_COUNTS]] if isinstance(found, list | tuple) else []


def _counts(event: Event, names: Names) -> list[list[int]]:
    """The user's classes first: built-in types bustle."""
    counts = event.get("counts")
    if not isinstance(counts, Mapping):
        return []
    mine = set(_user_classes(event))
    rows = [(str(name), whole(count)) for name, count in counts.items()]
    rows.sort(key=lambda row: (row[0] not in mine, "." not in row[0], -row[1], row[0]))
    return [[names.number(name), count] for name, count in rows[:MAX_COUNTS]]


def _containers(containers: Iterable[Any], names: Names) -> list[list[Any]]:
    """path, type, length, what it holds, bytes."""
    rows = [
        [
            names.number(item.get("path")),
            names.number(item.get("type")),
            whole(item.get("length") or 0),
            names.number(item.get("of") or ""),
            whole(item.get("bytes") or 0),
        ]
        for item in containers
        if isinstance(item, Mapping)
    ]
    return sorted(rows, key=lambda row: -int(row[2]))[:MAX_CONTAINERS]
