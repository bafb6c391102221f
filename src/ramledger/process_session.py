"""One object for callbacks and wrappers of frameworks: what this process holds, at a bounded cost.

It is all that `integrations/` needs of the live half, and public: docs/python-api.md.
"""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ramledger.agent import observer
from ramledger.agent.snapshot_event import take_snapshot
from ramledger.agent.snapshot_schedule import first_snapshot_seconds
from ramledger.api import Ledger, record, record_ourselves
from ramledger.event_parts import ProcessMemory
from ramledger.events import SnapshotEvent
from ramledger.ledger import Limit, Statement
from ramledger.measure import limits
from ramledger.measure.allocators import malloc, pymalloc
from ramledger.measure.own_memory import Meter
from ramledger.measure.proc import read_status, status_bytes
from ramledger.objects.census.class_growth import CountHistory
from ramledger.objects.names.walk_roots import Root
from ramledger.recorder.limit_guard import LimitGuard
from ramledger.recording import RecordingWriter
from ramledger.statement.own import own_statement, quick_statement


class ProcessSession:
    """This process. Making one does nothing to it yet; a process may have several."""

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger: phases, iterations, claims, callbacks under memory pressure."""
        return record()

    @cached_property
    def _meter(self) -> Meter:
        return Meter()

    @cached_property
    def _history(self) -> CountHistory:
        return CountHistory()

    # ---- sizes: microseconds ----------------------------------------------------------------

    def rss_bytes(self) -> int:
        """Resident bytes now."""
        return self._meter.rss_bytes()

    def anon_bytes(self) -> int:
        """Resident bytes now that no file is behind."""
        return self._meter.anon_bytes()

    def in_use_bytes(self) -> int:
        """What malloc and Python have handed out: exact, unlike RSS. Else anonymous memory."""
        native = malloc.in_use_bytes()
        return self.anon_bytes() if native is None else native + (pymalloc.used_bytes() or 0)

    def memory(self) -> ProcessMemory:
        """The kernel's counters, as in a `sample` event."""
        status = read_status(os.getpid())
        return ProcessMemory(
            anon_bytes=status_bytes(status, "RssAnon"),
            file_bytes=status_bytes(status, "RssFile"),
            shmem_bytes=status_bytes(status, "RssShmem"),
            swap_bytes=status_bytes(status, "VmSwap"),
            threads=int(status.get("Threads", "0")),
        )

    def start_peak(self) -> None:
        """Let `peak_bytes` count from here."""
        self._meter.reset_peak()

    def peak_bytes(self) -> int:
        """The largest RSS since `start_peak`; RSS now where the kernel forgets no peak."""
        return self._meter.peak_bytes() if self._meter.can_reset else self.rss_bytes()

    @property
    def limit(self) -> Limit | None:
        """The memory limit that ends this process first."""
        return limits.tightest(os.getpid())

    @property
    def available_bytes(self) -> int | None:
        """What the machine can still hand out."""
        return limits.available_bytes()

    # ---- statements -------------------------------------------------------------------------

    def statement(self, *, objects: bool = False) -> Statement:
        """Where the RAM is now; `objects` counts all objects, at several times the cost."""
        return own_statement(objects=objects)

    def statement_by_names(self, roots: Mapping[str, Any]) -> Statement:
        """What the program's names and `roots` lead to, at a third of the cost."""
        return quick_statement(*_roots(roots))[0]

    @property
    def expected_cost_seconds(self) -> float:
        """What the first statement will take, before there was one."""
        return first_snapshot_seconds()

    def snapshot_event(self, generation: int | None) -> SnapshotEvent:
        """A snapshot that is not recorded; it remembers counts from one to the next."""
        return take_snapshot(generation=generation, phase="", history=self._history).event

    # ---- the recording ----------------------------------------------------------------------

    @property
    def is_recorded(self) -> bool:
        """Whether this process is in a recording: of `ramledger run`, or one of its own."""
        return observer.OBSERVER is not None

    def start_recording(
        self, path: str, *, on_limit: bool = False, **settings: Any
    ) -> RecordingWriter:
        """Record this process into a file; `settings` as in `api.record_ourselves`.

        With `on_limit`, callbacks of `ledger.on_pressure` run when the limit is near.
        """
        limit = self.limit if on_limit else None
        guard = LimitGuard(limit, "checkpoint") if limit is not None else None
        return record_ourselves(path, guard=guard, **settings)

    @property
    def latest_statement(self) -> Statement | None:
        """That of the last recorded snapshot."""
        return observer.OBSERVER.snapshots.latest if observer.OBSERVER is not None else None

    def recent_statement(self, oldest_seconds: float) -> Statement | None:
        """The same; where it is older, of a new snapshot, if the recording's budget allows it."""
        found = observer.OBSERVER
        return found.recent_statement(oldest_seconds) if found is not None else None

    def record_statement_by_names(self, roots: Mapping[str, Any]) -> Statement:
        """As `statement_by_names`; a recording gets it, too."""
        found = observer.OBSERVER
        return (
            self.statement_by_names(roots)
            if found is None
            else found.statement_by_names(_roots(roots))
        )

    def record_snapshot(self, *, generation: int | None = None, phase: str | None = None) -> None:
        """A snapshot for the recording, if there is one: now, whatever it costs."""
        found = observer.OBSERVER
        if found is not None and phase is None:
            found.take_snapshot()
        elif found is not None and phase is not None:
            found.snapshots.take(generation=generation, phase=phase)

    def send_events(self) -> None:
        """Let the recorder have all events of this process so far."""
        if observer.OBSERVER is not None:
            observer.OBSERVER.link.flush()


def _roots(named: Mapping[str, Any]) -> list[Root]:
    return [Root(name, "", value) for name, value in named.items()]
