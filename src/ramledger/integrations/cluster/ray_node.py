"""What one node of a Ray cluster holds, read there: its workers, its memory, Ray's own threshold.

This file travels to the nodes by value, so that they need no ramledger: standard library and Ray
alone, and all names in here.
"""

import os
from typing import Any

_FIELDS = ("RssAnon", "RssFile", "RssShmem", "VmSwap")
_THRESHOLD = "RAY_memory_usage_threshold"
_REFRESH = "RAY_memory_monitor_refresh_ms"
_DEFAULT_THRESHOLD = 0.95


def read_node(with_pss: bool) -> dict[str, Any]:
    """Runs in a worker of the node, whose parent is the node's raylet; PSS takes longest."""
    from ray._private import utils

    total, used = int(utils.get_system_memory()), int(utils.get_used_memory())
    try:
        threshold = float(os.environ.get(_THRESHOLD, ""))
    except ValueError:
        threshold = _DEFAULT_THRESHOLD
    watches = os.environ.get(_REFRESH, "") != "0"
    return {
        "limit_bytes": total,
        "used_bytes": used,
        "kill_bytes": round(total * threshold) if watches else None,
        "workers": [row for pid in _children(os.getppid()) if (row := _worker(pid, with_pss))],
    }


def _children(parent: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # the command's name may hold blanks and brackets
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(name))
    return found


def _worker(pid: int, with_pss: bool) -> dict[str, Any] | None:
    """A worker that runs something, by what it runs; None for all else."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            title = file.read().rstrip(b"\0").decode(errors="replace")
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
    except OSError:
        return None
    if not title.startswith("ray::") or title.startswith("ray::IDLE") or pid == os.getpid():
        return None
    sizes = [int(lines.get(name.encode(), b"0 kB").split()[0]) * 1024 for name in _FIELDS]
    row: dict[str, Any] = {"pid": pid, "title": title}
    row["levels"] = [*sizes, int(lines.get(b"Threads", b"0"))]
    if with_pss:
        row["pss_bytes"] = _pss_bytes(pid)
    return row


def _pss_bytes(pid: int) -> int | None:
    """Its share of all pages but those of shared memory: the object store has those."""
    found = {"Pss": 0, "Pss_Shmem": 0}
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                name = line.split(b":")[0].decode()
                if name in found:
                    found[name] = int(line.split()[1]) * 1024
    except OSError:
        return None
    return found["Pss"] - found["Pss_Shmem"]
