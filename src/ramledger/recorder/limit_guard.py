"""The limit: noticed in time, and enforced if asked.

`warn` only records it, `checkpoint` asks the agents to run the callbacks that the training has
registered, `stop` ends the process afterwards: SIGTERM, then SIGKILL after a grace period.
"""

import os
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Literal

from ramledger.agent.server import socket_path
from ramledger.attach.enter import ask_inside
from ramledger.errors import RamledgerError
from ramledger.events import PressureEvent
from ramledger.ledger import Limit
from ramledger.measure.known_process import KnownProcess
from ramledger.recorder.tree_sampler import TreeSample

OnLimit = Literal["warn", "checkpoint", "stop"]

_ACT_SHARE = 0.92  # of the limit: act now
_NEAR_SHARE = 0.75  # sample faster
_SOON_SHARE = 0.6  # ... also from here on, when no more than so many seconds are left
_ACT_SECONDS = 3.0
# a jump is not a rate: growth counts at the slowest over these spans
_RATE_SPANS_SECONDS = (1.0, 2.5)
_CALLBACK_SECONDS = 60.0
_REQUEST = {"verb": "pressure"}


class LimitGuard:
    """Compares the tree with the limit at every sample, and acts once."""

    def __init__(self, limit: Limit, on_limit: OnLimit, grace_seconds: float = 20.0) -> None:
        self.limit = limit
        self.on_limit = on_limit
        self.grace_seconds = grace_seconds
        self.callbacks = 0
        self.has_acted = False
        self._levels: deque[tuple[float, int]] = deque()

    def check(self, sample: TreeSample, t: float) -> tuple[PressureEvent | None, bool]:
        """(an event if we act now, whether the limit is near)."""
        used = self._usage(sample)
        left = self._seconds_left(used, t)
        share = used / self.limit.bytes if self.limit.bytes else 0.0
        near = share >= _NEAR_SHARE or (left is not None and left < 3 * _ACT_SECONDS)
        soon = share >= _SOON_SHARE and left is not None and left < _ACT_SECONDS
        if self.has_acted or not (share >= _ACT_SHARE or soon):
            return None, near
        self.has_acted = True
        known = [KnownProcess(one.pid, one.start_ticks) for one in sample.processes]
        event = PressureEvent(
            t=t,
            usage_bytes=used,
            limit_bytes=self.limit.bytes,
            action=self.on_limit,
            seconds_left=None if left is None else round(left, 1),
        )
        if self.on_limit != "warn":
            threading.Thread(target=self._act, args=(known,), daemon=True).start()
        return event, near

    def _usage(self, sample: TreeSample) -> int:
        # shared pages count once in the cgroup's own number; ours for a limit of our own
        if sample.usage_bytes is not None and "cgroup" in self.limit.source:
            return sample.usage_bytes
        return sample.used_bytes

    def _seconds_left(self, used: int, now: float) -> float | None:
        self._levels.append((now, used))
        longest = _RATE_SPANS_SECONDS[-1]
        while len(self._levels) > 1 and now - self._levels[1][0] >= longest:
            self._levels.popleft()
        if now - self._levels[0][0] < longest:
            return None
        rates = []
        for span in _RATE_SPANS_SECONDS:
            then, before = next(level for level in reversed(self._levels) if now - level[0] >= span)
            rates.append((used - before) / (now - then))
        slowest = min(rates)
        return (self.limit.bytes - used) / slowest if slowest > 0 else None

    def _act(self, known: list[KnownProcess]) -> None:
        """Ask every agent for its callbacks and a last statement; then stop, if that is wanted."""
        for one in known:
            if os.path.exists(socket_path(one.pid)) and one.is_there:
                with suppress(RamledgerError, OSError):
                    reply = ask_inside(
                        one.pid, _REQUEST, method="agent", timeout_seconds=_CALLBACK_SECONDS
                    )
                    self.callbacks += int(reply.get("callbacks", 0))
        if self.on_limit == "stop" and known:
            self._stop(known)

    def _stop(self, known: list[KnownProcess]) -> None:
        known[0].send(signal.SIGTERM)
        deadline = time.monotonic() + self.grace_seconds
        while time.monotonic() < deadline:
            if not known[0].is_there:
                return
            time.sleep(0.1)
        for one in known:
            one.send(signal.SIGKILL)
