"""What one process of a Ray cluster says of itself: one small statement a period.

It looks deeper only where memory grows, and then within a share of its own CPU time.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ramledger.agent.snapshot_event import deep_event
from ramledger.measure import limits
from ramledger.measure.proc import read_status, status_bytes
from ramledger.objects.class_growth import CountHistory
from ramledger.time_share import Governor
from ramledger.units import MIB

_LOOK_SHARE = 0.01
_LOOK_CREDIT_SECONDS = 0.5
_SETTLED_REPORTS = 3
_LOOK_GROWTH_BYTES = 4 * MIB  # a look when it has grown by this ...
_LOOK_RATIO = 1.5  # ... and the next ones each after this many times more
_DEFAULT_THRESHOLD = 0.95
# as Ray spells them
_THRESHOLD_VARIABLE = "RAY_memory_usage_threshold"
_REFRESH_VARIABLE = "RAY_memory_monitor_refresh_ms"

Send = Callable[[dict[str, Any]], Any]


class Reporter:
    """Reads this process's levels, and hands them to `send` at most once a period."""

    def __init__(self, name: str, role: str, node: str, every_seconds: float, send: Send) -> None:
        self.name = name
        self.role = role
        self.node = node
        self.every_seconds = every_seconds
        self.send = send
        self._next = 0.0
        self._reports = 0
        self._limits = node_limits()
        self._governor = Governor(_LOOK_SHARE, time.process_time, _LOOK_CREDIT_SECONDS)
        self._history = CountHistory()
        self._looks = 0
        self._anon_bytes = self._looked_bytes = 0
        self._look_step_bytes: float = _LOOK_GROWTH_BYTES
        self._lock = threading.Lock()

    def report(self) -> None:
        """Send a statement if one is due; never raises into the training."""
        now = time.monotonic()
        if now < self._next or not self._lock.acquire(blocking=False):
            return
        try:
            self._next = now + self.every_seconds
            with suppress(Exception):
                self.send(self.statement())
        finally:
            self._lock.release()

    def report_forever(self) -> None:
        """From a thread of its own, in processes that have no callbacks."""
        threading.Thread(target=self._repeat, name="ramledger", daemon=True).start()

    def _repeat(self) -> None:
        while True:
            self.report()
            time.sleep(self.every_seconds)

    def last_words(self) -> dict[str, Any] | None:
        """At the end, where it has grown since a look: a statement with one more, else None."""
        grown = self._looks and self._anon_bytes >= self._looked_bytes + _LOOK_GROWTH_BYTES
        return self.statement(is_last=True) if grown else None

    def statement(self, *, is_last: bool = False) -> dict[str, Any]:
        """The levels of this process and its node now."""
        status = read_status(os.getpid())
        sizes = [status_bytes(status, n) for n in ("RssAnon", "RssFile", "RssShmem", "VmSwap")]
        self._reports += 1
        self._anon_bytes = sizes[0]
        found = {
            "pid": os.getpid(),
            "node": self.node,
            "name": self.name,
            "role": self.role,
            "levels": [*sizes, int(status.get("Threads", "0"))],
            "limits": self._limits,
            "node_used_bytes": _node_used_bytes(self._limits),
        }
        look = self._look() if is_last or self._is_look_due() else None
        return {**found, "look": look, "is_last": is_last} if look else found

    def _is_look_due(self) -> bool:
        if self._reports <= _SETTLED_REPORTS:
            self._looked_bytes = self._anon_bytes
            return False
        grown = self._anon_bytes >= self._looked_bytes + self._look_step_bytes
        return grown and self._governor.allows()

    def _look(self) -> dict[str, Any]:
        event = deep_event(generation=None, phase="", history=self._history)
        event.pop("mono", None)
        self._governor.spend(event["cost_seconds"])
        self._looks += 1
        self._looked_bytes = self._anon_bytes
        self._look_step_bytes *= _LOOK_RATIO
        return event


def node_limits() -> dict[str, Any]:
    """The node's memory, and where Ray's memory monitor begins to kill workers."""
    found = limits.tightest(os.getpid())
    if found is None:
        return {}
    threshold = _threshold()
    watches = os.environ.get(_REFRESH_VARIABLE, "") != "0"
    kill = {"kill_bytes": round(found.bytes * threshold)} if watches else {}
    return {"limit_bytes": found.bytes, "limit_source": found.source, **kill}


def _threshold() -> float:
    with suppress(ValueError):
        return float(os.environ.get(_THRESHOLD_VARIABLE, ""))
    return _DEFAULT_THRESHOLD


def _node_used_bytes(limit: dict[str, Any]) -> int:
    available = limits.available_bytes()
    return max(0, int(limit.get("limit_bytes", 0)) - available) if available is not None else 0
