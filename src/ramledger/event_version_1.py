"""Recordings of version 1, line by line as version 2 names things."""

from collections.abc import Callable, Mapping
from typing import Any

from ramledger.ledger import STATEMENT_SCHEMA

Plain = dict[str, Any]

KINDS: Mapping[str, str] = {
    "books": "allocators",
    "names": "names-snapshot",
    "outline": "outside-snapshot",
    "functions": "function-growth",
    "elsewhere": "remote-process",
    "probe": "release-probe",
    "exit": "program-end",
    "now": "current-phase",
    "end": "run-end",
}
FIELDS: Mapping[str, Mapping[str, str]] = {
    "process": {"parent": "parent_pid", "agent": "has_agent", "worker": "is_worker"},
    "sample": {
        "others": "other_processes",
        "others_inherited_bytes": "other_inherited_bytes",
        "low": "low_bytes",
        "high": "high_bytes",
        "used_bytes": "tree_bytes",
        "usage_bytes": "cgroup_bytes",
        "stale": "stale_pids",
        "pss": "pss_bytes",
    },
    "phase": {"count": "passes", "measured": "measured_passes"},
    "generation": {"count": "passes", "final": "is_final", "added": "elements_added"},
    "books": {"python_used_bytes": "python_in_use_bytes"},
    "snapshot": {
        "views": "pinned_by_views",
        "counts": "live_objects",
        "first_counts": "first_live_objects",
        "watched": "watched_paths",
        "gc_frozen": "gc_frozen_objects",
    },
    "probe": {"live": "is_live"},
}
LEVELS = ("anon_bytes", "file_bytes", "shmem_bytes", "swap_bytes", "threads")


def upgraded(line: Any) -> Any:
    """The same line as version 2 has it; what is malformed stays so."""
    kind = line.get("event") if type(line) is dict else None
    if type(kind) is not str:
        return line
    names = FIELDS.get(kind, {})
    found = {names.get(name, name): value for name, value in line.items()}
    found["event"] = KINDS.get(kind, kind)
    if kind in _MORE:
        _MORE[kind](found)
    return found


def _sample(found: Plain) -> None:
    processes = found.get("processes")
    if type(processes) is dict:
        found["processes"] = {pid: _levels(row) for pid, row in processes.items()}
    if "other_processes" in found:
        found["other_processes"] = _levels(found["other_processes"])


def _levels(row: Any) -> Any:
    if type(row) is not list or len(row) < len(LEVELS):
        return row
    return dict(zip(LEVELS, row, strict=False))


def _snapshot(found: Plain) -> None:
    """Sizes of types stand in the statement now."""
    sizes, statement = found.pop("sizes", None), found.get("statement")
    if type(sizes) is dict and type(statement) is dict:
        rows = [
            {"type": name, "count": row[0], "bytes": row[1]}
            for name, row in sizes.items()
            if type(row) is list and len(row) == 2
        ]
        found["statement"] = {**statement, "types": rows}


def _names(found: Plain) -> None:
    """They had a part of a statement."""
    statement = found.get("statement")
    if type(statement) is dict:
        whole = {"schema": STATEMENT_SCHEMA, "pid": found.get("pid"), "command": "", "at": 0.0}
        found["statement"] = {**whole, **statement}


def _probe(found: Plain) -> None:
    if "anon_bytes" not in found and "rss_bytes" in found:
        found["anon_bytes"] = found["rss_bytes"]


_MORE: Mapping[str, Callable[[Plain], None]] = {
    "sample": _sample,
    "snapshot": _snapshot,
    "names": _names,
    "probe": _probe,
}
