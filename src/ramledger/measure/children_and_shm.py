"""Memory outside this process that its code fills: that of its children, and /dev/shm.

Read with every sample of the call stack, so that this growth is attributed to functions, too.
"""

import os
import time
from contextlib import suppress

from ramledger.descriptors import read_beginning
from ramledger.measure.own_memory import PAGE_BYTES

SHM = "/dev/shm"
_MAX_CHILDREN = 48
_PAUSE_PER_COST = 50  # pause for this many times the cost: many children are read more rarely


class ChildrenAndShmMeter:
    """Bytes of direct children beyond what they inherited, and bytes in /dev/shm."""

    def __init__(self) -> None:
        self._inherited: dict[int, int] = {}
        self._children = f"/proc/self/task/{os.getpid()}/children"
        self._due = 0.0
        self._known_bytes = 0

    def children_bytes(self, own_anon_bytes: int) -> int:
        """Anonymous memory of the first children, without pages that a fork shares with us."""
        started = time.monotonic()
        if started >= self._due:
            self._known_bytes = self._sum(own_anon_bytes)
            now = time.monotonic()
            self._due = now + _PAUSE_PER_COST * (now - started)
        return self._known_bytes

    def _sum(self, own_anon_bytes: int) -> int:
        pids = _child_pids(self._children)
        total = 0
        for pid in pids:
            anon = _anon_bytes(pid)
            if anon is not None:
                total += anon - self._inherited.setdefault(pid, min(anon, own_anon_bytes))
        for pid in self._inherited.keys() - set(pids):
            del self._inherited[pid]
        return max(0, total)

    def shm_bytes(self) -> int:
        """What all files in /dev/shm take; 0 where there is none."""
        return used_bytes(SHM)


def used_bytes(directory: str) -> int:
    """What all files of a file system take; 0 where there is none."""
    with suppress(OSError):
        found = os.statvfs(directory)
        return (found.f_blocks - found.f_bfree) * found.f_frsize
    return 0


def _child_pids(path: str) -> list[int]:
    """Children of the main thread; every thread has such a file (CONFIG_PROC_CHILDREN)."""
    with suppress(OSError, ValueError):
        return list(map(int, read_beginning(path, 4096).split()[:_MAX_CHILDREN]))
    return []


def _anon_bytes(pid: int) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        fields = read_beginning(f"/proc/{pid}/statm", 64).split()
        return (int(fields[1]) - int(fields[2])) * PAGE_BYTES
    return None
