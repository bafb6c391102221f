"""Statements from outside, for the largest process without an agent: kinds of memory, no owners.

One when it is first seen, then at every tenth of growth, within a small share of the time.
"""

import time
from contextlib import suppress

from ramledger.errors import RamledgerError
from ramledger.events import OutsideSnapshotEvent
from ramledger.recorder.tree_sampler import SampledProcess
from ramledger.statement.outside import bounded, outside_statement
from ramledger.time_share import Governor

_SHARE = 0.005
_GROWTH = 1.1
_LEAST_BYTES = 1 << 20
_FIRST_SECONDS = 1.0  # a process that has just begun may run another program in a moment


class OutsideSnapshots:
    """Decides process by process; those with an agent take their own snapshots."""

    def __init__(self) -> None:
        self._governor = Governor(_SHARE)
        self._with_agent: set[int] = set()
        self._first_seen: dict[int, float] = {}
        self._known_bytes: dict[int, int] = {}

    def has_agent(self, pid: int) -> None:
        """Leave this process to itself."""
        self._with_agent.add(pid)

    def take_if_due(
        self, processes: tuple[SampledProcess, ...], t: float
    ) -> OutsideSnapshotEvent | None:
        """The event with a statement, if one is due."""
        alone = [process for process in processes if process.pid not in self._with_agent]
        if not alone:
            return None
        largest = max(alone, key=lambda process: process.resident_bytes)
        first = self._first_seen.setdefault(largest.pid, t)
        known_bytes = self._known_bytes.get(largest.pid, _LEAST_BYTES)
        if t - first < _FIRST_SECONDS or largest.resident_bytes < known_bytes * _GROWTH:
            return None
        if not self._governor.allows():
            return None
        began = time.thread_time()
        event = None
        with suppress(RamledgerError):
            statement = bounded(outside_statement(largest.pid, "outside"))
            event = OutsideSnapshotEvent(t=t, pid=largest.pid, statement=statement)
        self._known_bytes[largest.pid] = largest.resident_bytes
        self._governor.spend(time.thread_time() - began)
        return event
