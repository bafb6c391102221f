"""The same work again and again, judged in memory and without a file: for tests and wrappers."""

import gc
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from ramledger.agent.snapshot_event import deep_event
from ramledger.diagnose.causes import explain_leak
from ramledger.diagnose.explanation import Explanation
from ramledger.measure.allocators import malloc, pymalloc
from ramledger.measure.own_memory import Meter
from ramledger.objects.class_growth import CountHistory
from ramledger.recording import Recording
from ramledger.run.slopes import Slope, floor_of, theil_sen
from ramledger.run.timeline import build_timeline
from ramledger.units import format_bytes

FEWEST_PASSES = 6
_MOST_LOOKS = 8
_FREE = ("allocator/free", "python/free")
_STEADY = 0.75  # of the passes must add at least half of the usual
_HEADER = {"schema": "ramledger.recording/1"}


@dataclass(frozen=True, slots=True)
class PassLeak:
    """What every pass leaves behind."""

    bytes_per_pass: int
    interval_bytes: tuple[int, int]
    passes: int
    explanation: Explanation

    def __str__(self) -> str:
        found, (low, high) = self.explanation, self.interval_bytes
        what = found.culprit.type or "memory"
        relation = found.culprit.relation
        held = f", {relation} {found.culprit.path}" if relation else ""
        lines = [
            f"leak: {format_bytes(self.bytes_per_pass)} a pass ({format_bytes(low)} to "
            f"{format_bytes(high)}, {self.passes} passes): {what}{held} ({found.cause})",
            *(f"  {line}" for line in found.evidence),
        ]
        return "\n".join([*lines, f"  what to do: {found.advice}"] if found.advice else lines)


class Passes:
    """Notes the memory in use after each pass, and looks deeper after some."""

    def __init__(self, *, collect: bool = True) -> None:
        self._collects = collect
        self._events: list[dict[str, Any]] = []
        self._levels: list[float] = []
        self._history = CountHistory()
        self._meter = Meter()

    @property
    def levels(self) -> Sequence[float]:
        """Bytes in use after each pass."""
        return self._levels

    def ended(self, *, look: bool = False) -> None:
        """One more pass is over."""
        if self._collects:
            gc.collect()
        in_use = _in_use()
        number = len(self._levels)
        self._levels.append(float(self._meter.anon_bytes() if in_use is None else in_use))
        self._add({"event": "generation", "generation": number, "origin": "explicit",
                   "anon_bytes": round(self._levels[-1]), "file_bytes": 0})  # fmt: skip
        if look:
            self.look()

    def look(self) -> None:
        """Look deeper after the pass that was the last to end."""
        event = deep_event(generation=len(self._levels) - 1, phase="", history=self._history)
        # what is judged is in use: freed memory that is kept cannot be why it grows
        rows = event["statement"]["accounts"]
        event["statement"]["accounts"] = [r for r in rows if r["account"] not in _FREE]
        self._add(event)

    def leak(self, least_bytes: int, warm_up: int = 2) -> PassLeak | None:
        """What each pass after the first ones leaves behind, if it is at least so much."""
        levels = self._levels[warm_up:]
        if len(levels) < FEWEST_PASSES:
            return None
        slope = theil_sen([float(x) for x in range(len(levels))], levels)
        if slope is None or slope.per_step < least_bytes or not _is_steady(levels, slope):
            return None
        recording = Recording("passes", _HEADER, tuple(self._events))
        return PassLeak(
            round(slope.per_step),
            (round(slope.low), round(slope.high)),
            len(self._levels),
            explain_leak(build_timeline(recording), ()),
        )

    def halve(self) -> None:
        """Keep every second pass: two of them are one from now on."""
        self._levels = self._levels[1::2]
        kept = [e for e in self._events if e["event"] != "generation" or e["generation"] % 2]
        self._events = [{**e, "generation": e["generation"] // 2} for e in kept]
        looks = [e for e in self._events if e["event"] == "snapshot"]
        surplus = looks[1:-_MOST_LOOKS] if len(looks) > _MOST_LOOKS + 1 else []
        self._events = [e for e in self._events if not any(e is one for one in surplus)]

    def _add(self, event: dict[str, Any]) -> None:
        self._events.append({**event, "pid": os.getpid(), "t": time.monotonic()})


def _in_use() -> int | None:
    """What malloc and Python have handed out: exact, unlike RSS."""
    native = malloc.in_use_bytes()
    return None if native is None else native + (pymalloc.used_bytes() or 0)


def _is_steady(levels: Sequence[float], slope: Slope) -> bool:
    """Whether the floor rises pass by pass, not in one step."""
    floor = floor_of(levels)
    steps = [b - a for a, b in pairwise(floor)]
    rising = sum(step >= 0.5 * slope.per_step for step in steps)
    return slope.is_rising and rising >= _STEADY * len(steps) and median(steps) > 0
