"""Reports of one process of a Ray cluster: a small one a period.

It takes snapshots only where memory grows, and then within a share of its own CPU time.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ramledger.events import SnapshotEvent
from ramledger.integrations.cluster.process_report import NodeLimits, ProcessReport
from ramledger.ledger import Limit
from ramledger.process_session import ProcessSession
from ramledger.time_share import Governor
from ramledger.units import MIB

_SNAPSHOT_SHARE = 0.01
_SNAPSHOT_CREDIT_SECONDS = 0.5
_SETTLED_REPORTS = 3
_GROWTH_BYTES = 4 * MIB  # a snapshot when it has grown by this ...
_GROWTH_RATIO = 1.5  # ... and the next ones each after this many times more
_DEFAULT_THRESHOLD = 0.95
# as Ray spells them
_THRESHOLD_VARIABLE = "RAY_memory_usage_threshold"
_REFRESH_VARIABLE = "RAY_memory_monitor_refresh_ms"

Send = Callable[[ProcessReport], object]


class Reporter:
    """Reads what this process holds, and hands it to `send` at most once a period."""

    def __init__(self, name: str, role: str, node: str, every_seconds: float, send: Send) -> None:
        self.name = name
        self.role = role
        self.node = node
        self.every_seconds = every_seconds
        self.send = send
        self._next = 0.0
        self._reports = 0
        self._session = ProcessSession()
        self._limits = node_limits(self._session.limit)
        self._governor = Governor(_SNAPSHOT_SHARE, time.process_time, _SNAPSHOT_CREDIT_SECONDS)
        self._snapshots = 0
        self._anon_bytes = self._taken_bytes = 0
        self._step_bytes: float = _GROWTH_BYTES
        self._lock = threading.Lock()

    def report(self) -> None:
        """Send a report if one is due; never raises into the training."""
        now = time.monotonic()
        if now < self._next or not self._lock.acquire(blocking=False):
            return
        try:
            self._next = now + self.every_seconds
            with suppress(Exception):
                self.send(self.current())
        finally:
            self._lock.release()

    def report_forever(self) -> None:
        """From a thread of its own, in processes that have no callbacks."""
        threading.Thread(target=self._repeat, name="ramledger", daemon=True).start()

    def _repeat(self) -> None:
        while True:
            self.report()
            time.sleep(self.every_seconds)

    def last_report(self) -> ProcessReport | None:
        """At the end, where it has grown since a snapshot: a report with one more, else None."""
        grown = self._snapshots and self._anon_bytes >= self._taken_bytes + _GROWTH_BYTES
        return self.current(is_last=True) if grown else None

    def current(self, *, is_last: bool = False) -> ProcessReport:
        """This process and its node now."""
        memory = self._session.memory()
        self._reports += 1
        self._anon_bytes = memory.anon_bytes
        return ProcessReport(
            pid=os.getpid(),
            node=self.node,
            name=self.name,
            role=self.role,
            memory=memory,
            limits=self._limits,
            node_used_bytes=self._node_used_bytes(),
            snapshot=self._snapshot() if is_last or self._is_snapshot_due() else None,
            is_last=is_last,
        )

    def _is_snapshot_due(self) -> bool:
        if self._reports <= _SETTLED_REPORTS:
            self._taken_bytes = self._anon_bytes
            return False
        grown = self._anon_bytes >= self._taken_bytes + self._step_bytes
        return grown and self._governor.allows()

    def _snapshot(self) -> SnapshotEvent:
        event = self._session.snapshot_event(None)
        self._governor.spend(event.cost_seconds)
        self._snapshots += 1
        self._taken_bytes = self._anon_bytes
        self._step_bytes *= _GROWTH_RATIO
        return event

    def _node_used_bytes(self) -> int:
        available = self._session.available_bytes
        if available is None:
            return 0
        return max(0, (self._limits.limit_bytes or 0) - available)


def node_limits(limit: Limit | None) -> NodeLimits:
    """The node's memory, and where Ray's memory monitor begins to kill workers."""
    if limit is None:
        return NodeLimits()
    watches = os.environ.get(_REFRESH_VARIABLE, "") != "0"
    kill = round(limit.bytes * _threshold()) if watches else None
    return NodeLimits(limit.bytes, limit.source, kill)


def _threshold() -> float:
    with suppress(ValueError):
        return float(os.environ.get(_THRESHOLD_VARIABLE, ""))
    return _DEFAULT_THRESHOLD
