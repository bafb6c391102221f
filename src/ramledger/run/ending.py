"""How a run ended, which is the first thing to say about it; from its last events."""

import signal as signals
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ramledger.recording import Event, Recording
from ramledger.units import MIB, format_bytes, format_delta, format_duration

SIGKILL = 9
JUST_NOW_SECONDS = 10.0  # before the end: what ended then may be why the rest did
AT_EXIT = "end"  # the phase of the look that an agent takes when its process exits
UNATTRIBUTED = "memory not attributed yet"  # it grew after the last look
RECENT_LOOKS = 6
RECENT_SAMPLES = 8
_WORTH_BYTES = MIB

Grown = tuple[str, int, float]  # account, bytes, seconds it took
Seen = tuple[float, Mapping[str, int]]  # when, and resident bytes by account


class How(StrEnum):
    """The ways a run ends."""

    FINISHED = "finished"
    FAILED = "failed"
    SIGNALED = "signaled"
    KILLED_BY_KERNEL = "killed-by-kernel"
    STOPPED_AT_LIMIT = "stopped-at-limit"
    NOT_RECORDED = "not-recorded"


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended, and what was known a moment before."""

    how: How
    seconds: float
    exit_code: int | None = None
    signal: int | None = None
    used_bytes: int | None = None  # of the limit, in the last sample
    limit_bytes: int | None = None
    grew_last: Grown | None = None

    @property
    def is_ordinary(self) -> bool:
        """Whether there is nothing to say about it before the verdict."""
        return self.how is How.FINISHED

    @property
    def is_for_memory(self) -> bool:
        return self.how in (How.KILLED_BY_KERNEL, How.STOPPED_AT_LIMIT)

    @property
    def text(self) -> str:
        """What to say after the name of the run."""
        after = f"after {format_duration(self.seconds)}"
        if self.how is How.NOT_RECORDED:
            lasted = format_duration(self.seconds)
            return f"was recorded for {lasted}; the recording stops here"
        if self.how is How.KILLED_BY_KERNEL:
            return (
                f"was killed by the kernel for memory {after}{self._level(', at ')}{self._grew()}"
            )
        if self.how is How.STOPPED_AT_LIMIT:
            used = self._level(": ", " used")
            return f"was stopped early {after}, since the limit was about to be reached{used}"
        if self.how is How.SIGNALED:
            doubt = "; nothing shows that it was for memory" if self.signal == SIGKILL else ""
            level = self._level(", at ") if self.signal == SIGKILL else ""
            return f"was ended by {_signal_name(self.signal)} {after}{level}{doubt}"
        code = f" with exit code {self.exit_code}" if self.exit_code else ""
        return f"ended {after}{code}"

    def _level(self, before: str, behind: str = "") -> str:
        if not self.used_bytes:
            return ""
        of = f" of {format_bytes(self.limit_bytes)}" if self.limit_bytes else ""
        return f"{before}{format_bytes(self.used_bytes)}{of}{behind}"

    def _grew(self) -> str:
        if self.grew_last is None:
            return ""
        account, grown, seconds = self.grew_last
        return f"; what grew last: {account}, {format_delta(grown)} in {format_duration(seconds)}"

    def to_dict(self) -> dict[str, Any]:
        """As in `ramledger.diagnosis/1` and `ramledger.run/1`."""
        grew = self.grew_last
        return {
            "how": str(self.how),
            "text": self.text,
            "seconds": round(self.seconds, 3),
            "exit_code": self.exit_code,
            "signal": self.signal,
            "used_bytes": self.used_bytes,
            "limit_bytes": self.limit_bytes,
            "grew_last": None if grew is None else {"account": grew[0], "bytes": grew[1]},
        }


def _signal_name(number: int | None) -> str:
    try:
        return signals.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"


def ending(
    end: Event | None,
    pressures: Sequence[Event],
    *,
    seconds: float,
    used_bytes: int | None = None,
    limit_bytes: int | None = None,
    grew_last: Grown | None = None,
) -> Ending:
    """The ending that the last events of a run tell."""
    how, event = How.FINISHED, end or {}
    if end is None:
        how = How.NOT_RECORDED
    elif end.get("killed_by_kernel"):
        how = How.KILLED_BY_KERNEL
    elif any(pressure.get("action") == "stop" for pressure in pressures):
        how = How.STOPPED_AT_LIMIT
        used_bytes, limit_bytes = _at_stop(pressures) or (used_bytes, limit_bytes)
    elif end.get("signal"):
        how = How.SIGNALED
    elif end.get("exit_code"):
        how = How.FAILED
    return Ending(
        how, seconds, event.get("exit_code"), event.get("signal"), used_bytes, limit_bytes,
        grew_last,
    )  # fmt: skip


def _at_stop(pressures: Sequence[Event]) -> tuple[int, int] | None:
    stops = [p for p in pressures if p.get("action") == "stop"]
    return (stops[-1]["usage_bytes"], stops[-1]["limit_bytes"]) if stops else None


def used_of_limit(sample: Event, level_bytes: int, limit: Mapping[str, Any] | None) -> int:
    """Against a control group's limit counts what the group holds, against ours the tree.

    The group's count may be seconds old, and what processes have to themselves is in it for sure;
    pages of files may have been counted to another group that read them first.
    """
    source = str(limit.get("source")) if limit else ""
    usage, available = sample.get("usage_bytes"), sample.get("available_bytes")
    if "cgroup" in source and usage is not None:
        files = sum(int(row[1]) for row in sample["processes"].values())
        return max(int(usage), level_bytes - files)
    if source == "host RAM" and limit and available is not None:
        return max(level_bytes, int(limit["bytes"]) - int(available))
    return level_bytes


# ---- from a recording -------------------------------------------------------------------------


@dataclass(slots=True)
class _LastWords:
    """What the end of a recording tells, gathered in one pass."""

    end: Event | None = None
    root_pid: int | None = None
    seconds: float = 0.0
    pressures: list[Event] = field(default_factory=list)
    samples: deque[Event] = field(default_factory=lambda: deque(maxlen=RECENT_SAMPLES))
    ended_at: dict[int, float] = field(default_factory=dict)
    looks: dict[int, deque[Event]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        kind = event["event"]
        self.seconds = max(self.seconds, event["t"])
        if kind == "sample":
            self.samples.append(event)
        elif kind == "snapshot" and event.get("phase") != AT_EXIT:
            self.looks.setdefault(event["pid"], deque(maxlen=RECENT_LOOKS)).append(event)
        elif kind == "process" and self.root_pid is None:
            self.root_pid = event["pid"]
        elif kind == "process-end":
            self.ended_at[event["pid"]] = event["t"]
        elif kind == "pressure":
            self.pressures.append(event)
        elif kind == "end":
            self.end = event

    def victim(self) -> int | None:
        """The root if a SIGKILL ended it; else, of those that ended just now, the largest."""
        if self.end is None or self.end.get("signal") == SIGKILL:
            return self.root_pid
        since = self.seconds - JUST_NOW_SECONDS
        ended = [p for p, t in self.ended_at.items() if t >= since and p != self.root_pid]
        return max(ended, key=self._last_level, default=self.root_pid)

    def _last_level(self, pid: int) -> int:
        rows = [s["processes"][str(pid)] for s in self.samples if str(pid) in s["processes"]]
        return sum(rows[-1][:3]) if rows else 0

    def levels(self) -> list[tuple[float, int]]:
        """Of all processes together, at the last samples."""
        return [(sample["t"], _level(sample)) for sample in self.samples]


def _level(sample: Event) -> int:
    total = sum(sum(row[:3]) for row in sample["processes"].values())
    return int(sample.get("used_bytes") or total + sum((sample.get("others") or ())[:3]))


def ending_of(recording: Recording) -> Ending:
    """How the run of a recording ended."""
    last = _LastWords()
    for event in recording.events:
        last.add(event)
    limit = recording.header.get("limit")
    limit = limit if limit and limit.get("bytes") else None
    levels = last.levels()
    used = used_of_limit(last.samples[-1], levels[-1][1], limit) if levels else None
    looks = [_seen(look) for look in last.looks.get(last.victim() or 0, ())]
    return ending(
        last.end, last.pressures, seconds=last.seconds, used_bytes=used,
        limit_bytes=limit["bytes"] if limit else None,
        grew_last=grew_last(looks, levels),
    )  # fmt: skip


def grew_last(looks: Sequence[Seen], levels: Sequence[tuple[float, int]]) -> Grown | None:
    """The account that grew most up to the last look; or more than that, what nobody looked at."""
    by_look = _grew_in_looks(looks)
    since = looks[-1][0] if looks else 0.0
    levels = [row for row in levels[-RECENT_SAMPLES:] if row[0] >= since]
    if not levels:
        return by_look
    now, level = levels[-1]
    t, lowest = min(levels, key=lambda row: row[1])
    least = max(_WORTH_BYTES, by_look[1] if by_look else 0)
    return (UNATTRIBUTED, level - lowest, now - t) if level - lowest >= least else by_look


def _grew_in_looks(looks: Sequence[Seen]) -> Grown | None:
    """Since the latest look that shows growth up to the last one."""
    for t, before in reversed(looks[:-1]):
        now, after = looks[-1]
        growth = {account: size - before.get(account, 0) for account, size in after.items()}
        most = max(growth, key=lambda account: growth[account], default="")
        if growth.get(most, 0) >= _WORTH_BYTES:
            return most, growth[most], now - t
    return None


def _seen(look: Event) -> Seen:
    statement = look["statement"]
    found: dict[str, int] = {}
    for row in statement["accounts"]:
        found[row["account"]] = found.get(row["account"], 0) + row["resident_bytes"]
    rest = (statement.get("rss_bytes") or 0) - sum(found.values())
    return look["t"], {**found, "unexplained": max(0, rest)}
