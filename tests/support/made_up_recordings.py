"""Recordings made up for tests: levels by generation, phases and deep looks, nothing measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from ramledger.recording import Recording

MIB = 1 << 20
PID = 7


def recording(*events: Mapping[str, Any]) -> Recording:
    """A recording of these events in time order."""
    first = {"event": "process", "pid": PID, "command": "train.py", "t": 0.0}
    ordered = sorted(events, key=lambda event: float(event["t"]))
    return Recording("test", {"schema": "ramledger.recording/1"}, (first, *ordered))


def generations(levels: Sequence[float], **more: Any) -> list[dict[str, Any]]:
    """One generation a second, with these levels in MiB."""
    return [
        {
            "event": "generation", "pid": PID, "t": float(i + 1), "generation": i, "final": False,
            "origin": "explicit", "anon_bytes": round(level * MIB), "file_bytes": 0, **more,
        }
        for i, level in enumerate(levels)
    ]  # fmt: skip


def phases(growth: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Growth in MiB of each phase in each generation, half a second each."""
    return [
        {
            "event": "phase", "pid": PID, "t": float(i + 1), "generation": i, "name": name,
            "count": 1, "measured": 1, "seconds": 0.5, "growth_bytes": round(size * MIB),
            "before_bytes": 100 * MIB, "peak_bytes": 100 * MIB,
        }
        for name, sizes in growth.items()
        for i, size in enumerate(sizes)
    ]  # fmt: skip


def look(generation: int, accounts: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A deep snapshot; accounts in MiB, or as (resident, reserved)."""
    rows = []
    for name, size in accounts.items():
        resident, reserved = size if isinstance(size, tuple) else (size, size)
        source = "path" if name.startswith(("variables/", "replay")) else "allocator"
        rows.append(
            {"account": name, "resident_bytes": round(resident * MIB), "source": source,
             "reserved_bytes": round(reserved * MIB)}
        )  # fmt: skip
    return {
        "event": "snapshot", "pid": PID, "t": generation + 1.1, "generation": generation,
        "phase": "", "label": "", "gc_enabled": True, "tensors_with_graph": 0, "counts": {},
        "containers": [], "statement": {"accounts": rows, "unexplained_bytes": 0}, **more,
    }  # fmt: skip
