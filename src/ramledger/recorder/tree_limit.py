"""A process and all that it started, held to a limit: measured rarely far below it.

One process is read by one small file. Others are searched for at a bounded share of the time.
"""

import os
import signal
import time
from contextlib import suppress

from ramledger.descriptors import OwnedDescriptor
from ramledger.errors import MeasureError
from ramledger.measure import proc
from ramledger.measure.known_process import KnownProcess
from ramledger.recorder.tree_sampler import TreeSampler

SHORTEST_SECONDS, LONGEST_SECONDS = 0.02, 0.25  # between two readings
FASTEST_BYTES_PER_SECOND = 4 << 30  # what is assumed to be taken until the next reading
TREE_SHARE = 0.001  # of the time, for reading all processes while there is but one ...
TREE_SECONDS = 1.0  # ... which are taken this often all the same
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class TreeLimit:
    """The most that a process tree has held, compared with a limit; `end` ends all of it."""

    def __init__(self, pid: int, limit_bytes: int) -> None:
        self.limit_bytes, self.peak_bytes = limit_bytes, 0
        self.library_bytes = 0  # of files that count as its own, mapped or not
        self._pid = pid
        self._known: KnownProcess | None = None  # where it has not ended already
        with suppress(MeasureError):
            self._known = KnownProcess.of(pid)
        self._sampler = TreeSampler(pid)
        self._statm: OwnedDescriptor | None = None
        with suppress(MeasureError):
            self._statm = proc.open_file(pid, "statm")
        self._processes = 1
        self._next_reading = self._next_tree = 0.0

    def is_over(self) -> bool:
        """Whether more is held than allowed; between two readings what was last seen counts."""
        now = time.monotonic()
        if now >= self._next_reading:
            used_bytes = self._used_bytes(now)
            self.peak_bytes = max(self.peak_bytes, used_bytes)
            self._next_reading = now + interval_seconds(self.limit_bytes - used_bytes)
        return self.peak_bytes > self.limit_bytes

    def rest_seconds(self) -> float:
        """Until the next reading."""
        return max(0.0, self._next_reading - time.monotonic())

    def end(self) -> None:
        """Kill the process and its group: it leads one, unless it did not come to that."""
        if self._known is not None:
            self._known.send_to_group(signal.SIGKILL)
            self._known.send(signal.SIGKILL)

    def close(self) -> None:
        """Let go of the processes."""
        self._sampler.close()
        if self._statm is not None:
            self._statm.close()
            self._statm = None

    def _used_bytes(self, now: float) -> int:
        if self._processes == 1 and now < self._next_tree and self._statm is not None:
            return self._alone_bytes(self._statm)
        began = time.thread_time()
        used_bytes = 0
        with suppress(MeasureError):
            sample = self._sampler.sample()
            self._processes = max(1, len(sample.processes))
            used_bytes = sample.used_bytes
            for root in sample.processes:
                if root.pid == self._pid:  # what it shares with a server is its own
                    used_bytes = max(used_bytes, root.resident_bytes)
                    used_bytes += max(0, self.library_bytes - root.file_bytes)
        cost = time.thread_time() - began
        self._next_tree = now + min(max(cost / TREE_SHARE, LONGEST_SECONDS), TREE_SECONDS)
        return used_bytes

    def _alone_bytes(self, statm: OwnedDescriptor) -> int:
        try:
            _, resident, shared, *_ = os.pread(statm.fileno(), 128, 0).split()
        except (OSError, ValueError):
            return 0
        resident_bytes, shared_bytes = int(resident) * _PAGE_BYTES, int(shared) * _PAGE_BYTES
        if not resident_bytes:  # it has just ended
            return 0
        return resident_bytes + max(0, self.library_bytes - shared_bytes)


def interval_seconds(left_bytes: int) -> float:
    """How soon a process may have taken what is left."""
    return min(max(left_bytes / FASTEST_BYTES_PER_SECOND, SHORTEST_SECONDS), LONGEST_SECONDS)
