"""Work that is repeated, judged in memory and without a file: for tests and wrappers."""

import gc
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ramledger.diagnose.causes import explain_leak
from ramledger.diagnose.code_lines import code_lines
from ramledger.diagnose.finding import CodeLines, Explanation
from ramledger.diagnose.growth_table import growth_table
from ramledger.diagnose.leak_words import leak_sentence
from ramledger.events import Event, GenerationEvent, SnapshotEvent
from ramledger.ledger import Statement
from ramledger.process_session import ProcessSession
from ramledger.run.model import Run
from ramledger.run.shapes import Shape, fit
from ramledger.run.timeline import build_timeline
from ramledger.units import format_bytes

FEWEST_PASSES = 6
_MOST_SNAPSHOTS = 8
_FREE = ("allocator/free", "python/free")
_PAGE = 4096.0


@dataclass(frozen=True, slots=True)
class PassLeak:
    """What every pass leaves behind."""

    bytes_per_pass: int
    interval_bytes: tuple[int, int]
    passes: int
    explanation: Explanation
    code: CodeLines

    def __str__(self) -> str:
        found, (low, high) = self.explanation, self.interval_bytes
        lines = [
            f"leak: {leak_sentence(found.cause, found.culprit, self.code)}: "
            f"{format_bytes(self.bytes_per_pass)} a pass ({format_bytes(low)} to "
            f"{format_bytes(high)}, {self.passes} passes)",
            *(f"  {line}" for line in (*found.evidence, *self.code.evidence())),
        ]
        return "\n".join([*lines, f"  what to do: {found.advice}"] if found.advice else lines)


class Passes:
    """Notes the memory in use after each pass, and takes a snapshot after some."""

    def __init__(self, *, collect: bool = True) -> None:
        self._collects = collect
        self._generations: list[GenerationEvent] = []
        self._snapshots: list[SnapshotEvent] = []
        self._levels: list[float] = []
        self._session = ProcessSession()

    @property
    def levels(self) -> Sequence[float]:
        """Bytes in use after each pass."""
        return self._levels

    def ended(self, *, snapshot: bool = False) -> None:
        """One more pass is over."""
        if self._collects:
            gc.collect()
        number = len(self._levels)
        self._levels.append(float(self._session.in_use_bytes()))
        self._generations.append(
            GenerationEvent(
                t=time.monotonic(), pid=os.getpid(), generation=number, origin="explicit",
                anon_bytes=round(self._levels[-1]),
            )
        )  # fmt: skip
        if snapshot:
            self.take_snapshot()

    def take_snapshot(self) -> None:
        """After the pass that was the last to end."""
        event = self._session.snapshot_event(len(self._levels) - 1)
        self._snapshots.append(replace(event, statement=_in_use_only(event.statement)))

    def leak(self, least_bytes: int, warm_up: int = 2) -> PassLeak | None:
        """What each pass after the first ones leaves behind, if it is at least so much."""
        levels = self._levels[warm_up:]
        if len(levels) < FEWEST_PASSES:
            return None
        growth = fit([(float(at), level) for at, level in enumerate(levels)], quantum=_PAGE)
        is_leak = growth.shape is Shape.LINEAR and growth.is_rising_at_end
        if not is_leak or growth.rate < least_bytes:
            return None
        events: list[Event] = [*self._generations, *self._snapshots]
        run = Run(keep_events=True)
        for event in events:
            run.take(event)
        low, high = growth.rate_interval
        onset = warm_up + (growth.onset if growth.onset is not None else growth.start)
        timeline = build_timeline(run)
        found = explain_leak(growth_table(timeline), onset)
        code = code_lines(timeline, found, "")
        interval = (round(low), round(high))
        return PassLeak(round(growth.rate), interval, len(self._levels), found, code)

    def halve(self) -> None:
        """Keep every second pass: two of them are one from now on."""
        self._levels = self._levels[1::2]
        self._generations = [
            replace(event, generation=event.generation // 2) for event in self._generations[1::2]
        ]
        halved = [replace(e, generation=(e.generation or 0) // 2) for e in self._snapshots]
        if len(halved) > _MOST_SNAPSHOTS + 1:
            halved = [halved[0], *halved[-_MOST_SNAPSHOTS:]]
        self._snapshots = halved


def _in_use_only(statement: Statement) -> Statement:
    """Without freed memory that is kept: it cannot be why memory in use grows."""
    kept = tuple(entry for entry in statement.entries if entry.account not in _FREE)
    free = sum(entry.resident_bytes for entry in statement.entries if entry.account in _FREE)
    return replace(statement, entries=kept, rss_bytes=statement.rss_bytes - free)
