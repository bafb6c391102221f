"""Sound recordings to start from: real ones in seeds/, and two made up for what needs a cluster."""

import gzip
import json
from pathlib import Path
from typing import Any

SEEDS = Path(__file__).with_name("seeds")
MIB = 1 << 20

Line = dict[str, Any]


def sound_recordings() -> dict[str, list[Line]]:
    """Header and events of each, by name."""
    found = {}
    for path in sorted(SEEDS.glob("*.gz")):
        text = gzip.decompress(path.read_bytes()).decode()
        found[path.name.partition(".")[0]] = [json.loads(line) for line in text.splitlines()]
    return {**found, "cluster": cluster(), "tensorflow": tensorflow()}


def thinned(lines: list[Line]) -> list[Line]:
    """The same run in fewer lines and shorter snapshots, so that more mutations fit in an hour."""
    at: dict[str, int] = {}
    found = lines[:1]
    for line in lines[1:]:
        kind = line["event"]
        at[kind] = at.get(kind, 0) + 1
        if kind not in _EVERY or at[kind] % _EVERY[kind] == 1:
            found.append(_shortened(line) if kind == "snapshot" else line)
    return found


_EVERY = {"sample": 3, "snapshot": 2, "books": 2, "process": 2}
_KEPT = 12


def _shortened(snapshot: Line) -> Line:
    statement = snapshot["statement"]
    short = {key: statement[key][:_KEPT] for key in ("accounts", "large_objects")}
    counts = dict(list(snapshot["counts"].items())[:_KEPT])
    return {**snapshot, "statement": {**statement, **short}, "counts": counts,
            "containers": snapshot["containers"][:_KEPT // 2]}  # fmt: skip


def _header(**more: Any) -> Line:
    return {
        "schema": "ramledger.recording/1", "started_at": 1.76e9, "command": ["python", "tune.py"],
        "directory": "/data", **more,
    }  # fmt: skip


def cluster() -> list[Line]:
    """A driver, two runners of which one leaks, and an object store, on two nodes."""
    lines = [_header(cluster={"kind": "ray", "run": "a"})]
    rows = ((7, "driver", "driver"), (8, "env runner 1", "env_runner"), (9, "r2", "env_runner"))
    for pid, name, role in rows:
        lines.append(
            {"event": "process", "t": 0.0, "pid": pid, "command": f"ray: {name}", "agent": False,
             "name": name, "role": role, "node": f"node{pid % 2}", "node_pid": pid + 100}
        )  # fmt: skip
    for i in range(24):
        t, leaked = float(i + 1), 4 * MIB * i
        lines.append(
            {"event": "generation", "t": t, "pid": 7, "generation": i, "rss_bytes": 200 * MIB,
             "anon_bytes": 150 * MIB, "file_bytes": 50 * MIB, "shmem_bytes": 0,
             "origin": "framework"}
        )  # fmt: skip
        levels = {7: 150 * MIB, 8: 90 * MIB + leaked, 9: 90 * MIB}
        lines.append(
            {"event": "sample", "t": t, "generation": i, "stale": [9] if i == 5 else [],
             "processes": {str(pid): [size, MIB, 0, 0, 4] for pid, size in levels.items()},

             "object_store": {"used_bytes": MIB * i, "pinned_bytes": 0, "spilled_bytes": 0,
                              "capacity_bytes": 1 << 30, "objects": i}}
        )  # fmt: skip
    lines.append({"event": "process-end", "t": 25.0, "pid": 9, "exit_code": 0, "signal": None})
    return [*lines, {"event": "end", "t": 26.0, "exit_code": 0, "peak_bytes": 500 * MIB}]


def _statement(sizes: dict[str, int]) -> Line:
    return {
        "schema": "ramledger.statement/1", "pid": 7, "command": "python tune.py", "at": 1.76e9,
        "inside": True, "rss_bytes": sum(sizes.values()) + 5 * MIB, "unexplained_bytes": 5 * MIB,
        "threads": 4, "limit": {"bytes": 1 << 31, "source": "host RAM"},
        "accounts": [
            {"account": name, "resident_bytes": size, "reserved_bytes": size + MIB,
             "source": "path", "objects": 3, "fill": 0.5 if "ring" in name else None, "note": ""}
            for name, size in sizes.items()
        ],
        "large_objects": [
            {"path": "ring.data", "account": "replay/ring", "type": "numpy.ndarray",
             "resident_bytes": 40 * MIB, "reserved_bytes": 80 * MIB, "dtype": "float64",
             "shape": [100, 84, 84], "fill": 0.5, "shared_with": ["a", "b"]}
        ],
        "facts": {
            "kind": "python", "settings": {"MALLOC_ARENA_MAX": "2"}, "thread_arenas": 9,
            "thread_stacks": {"count": 9, "reserved_bytes": MIB, "resident_bytes": MIB},
            "malloc": {"arenas": 9, "free_bytes": 9 * MIB,
                       "largest_arenas": [{"index": 0, "free_bytes": MIB, "in_use_bytes": MIB}]},
        },
        "types": [{"type": "Agent", "count": 4, "bytes": 4096}], "notes": ["a note"],
    }  # fmt: skip


def _look(i: int) -> Line:
    sizes = {"variables/tune.py:models": 9 * MIB * i, "replay/ring": 40 * MIB + MIB * i,
             "tensorflow/graphs": 3 * MIB * i}  # fmt: skip
    functions = [{"name": "tune.py:step", "instances": 1, "graphs": i, "varies": ["x: shape"]}]
    return {
        "event": "snapshot", "t": i + 1.1, "pid": 7, "generation": i, "phase": "fit", "label": "",
        "statement": _statement(sizes), "counts": {"Agent": 4 * i, "dict": 1000},
        "first_counts": {"Agent": 1}, "user_classes": ["Agent"], "sizes": {"Agent": [4, 4096]},
        "containers": [
            {"path": "tune.py:models", "type": "list", "length": 10 * i, "of": "Agent",
             "bytes": 9 * MIB * i, "account": "variables/tune.py:models", "capacity": 1000,
             "graphs": i, "added_in": ["tune.py:9 in fit"]}
        ],
        "views": {"replay/ring": {"bytes": 9, "of_bytes": 10, "count": 3, "type": "ndarray",
                                  "shape": [3, 4], "largest_bytes": 9}},
        "tensors_with_graph": 3 * i, "graph_depth": 4 * i, "tracked_objects": 1000,
        "tensorflow": {"graphs": 3 * i, "variables": 9,
                       "functions": functions, "callers": {"predict": {"tune.py:act": 90 * i},
                                                           "fit": {"tune.py:fit": i}}},
        "watched": {"Agent": ["tune.py:models[0]"]}, "gc_enabled": True, "gc_threshold": 700,
        "gc_frozen": 0, "frame_holders": {"Agent": 1}, "record_classes": ["Agent"],
        "versions": {"tensorflow": "2.15.0", "torch": "2.1"}, "cost_seconds": 0.01,
    }  # fmt: skip


def tensorflow() -> list[Line]:
    """Graphs that become more, looks by name, a failed snapshot, children and a plan."""
    lines = [_header(limit={"bytes": 1 << 31, "source": "host RAM"})]
    lines.append({"event": "process", "t": 0.0, "pid": 7, "command": "python tune.py"})
    for i in range(16):
        t = float(i + 1)
        lines.append(
            {"event": "generation", "t": t, "pid": 7, "generation": i, "seconds": 1.0, "count": 1,
             "rss_bytes": 100 * MIB + 12 * MIB * i, "anon_bytes": 90 * MIB + 12 * MIB * i,
             "file_bytes": 10 * MIB, "shmem_bytes": 0, "origin": "explicit", "final": False,
             "net_growth_bytes": {"fit": 12 * MIB}, "added": {"tune.py:models": {"fit": 10}}}
        )  # fmt: skip
        lines.append(
            {"event": "sample", "t": t, "processes": {"7": [90 * MIB + 12 * MIB * i, MIB, 0, 0, 4]},
             "others": [MIB * i, 0, 0, 0, 3], "others_inherited_bytes": 5, "shm_bytes": MIB * i}
        )  # fmt: skip
        if i % 2:
            lines.append(_look(i))
            look = _look(i)
            kept = ("rss_bytes", "unexplained_bytes", "accounts")
            named = {key: look["statement"][key] for key in kept}
            lines.append({"event": "names", "t": t + 0.2, "pid": 7, "generation": i,
                          "phase": "fit", "statement": named,
                          "containers": look["containers"]})  # fmt: skip
    lines.append({"event": "snapshot-failed", "t": 9.0, "pid": 7, "generation": 8, "phase": "fit",
                  "label": "", "reason": "the objects could not be read"})  # fmt: skip
    lines.append({"event": "outline", "t": 9.5, "pid": 8, "statement": _statement({"heap": MIB})})
    lines.append({"event": "note", "t": 9.5, "text": "a note"})
    return lines
