"""How a run ended, which process was killed, and what grew last."""

import signal as signals
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ramledger.events import PressureEvent
from ramledger.run.model import Run
from ramledger.run.processes import Process
from ramledger.run.snapshots import ProcessSnapshots, account_totals
from ramledger.units import MIB, format_bytes, format_delta, format_duration

SIGKILL = 9
UNATTRIBUTED = "memory not attributed yet"  # it grew after the last snapshot
_JUST_NOW_SECONDS = 10.0  # before the end: what ended then may be why the rest did
_RECENT_SAMPLES = 8
_WORTH_BYTES = MIB
_TOP = 3

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
        """Whether the verdict can come first."""
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


@dataclass(frozen=True, slots=True)
class KernelKill:
    """The process that was killed, as it was last seen; pid 0 when it was not seen."""

    pid: int
    command: str
    resident_bytes: int
    largest: tuple[tuple[str, int], ...] = ()
    grew_last: Grown | None = None


def ending_of(run: Run) -> Ending:
    """How a run ended, as far as it is known."""
    how, limit = _how(run), run.limit
    used_bytes = run.used.last if len(run.used) else None
    limit_bytes = limit.bytes if limit is not None and limit.bytes else None
    if how is How.STOPPED_AT_LIMIT:
        stop = _stops(run)[-1]
        used_bytes, limit_bytes = stop.usage_bytes, stop.limit_bytes
    return Ending(
        how,
        run.now_seconds,
        run.end.exit_code if run.end is not None else None,
        run.end.signal if run.end is not None else None,
        used_bytes,
        limit_bytes,
        _grew_last(run, _victim(run)),
    )


def _how(run: Run) -> How:
    end = run.end
    if end is None:
        return How.NOT_RECORDED
    if end.killed_by_kernel:
        return How.KILLED_BY_KERNEL
    if _stops(run):
        return How.STOPPED_AT_LIMIT
    if end.signal:
        return How.SIGNALED
    return How.FAILED if end.exit_code else How.FINISHED


def _stops(run: Run) -> list[PressureEvent]:
    return [pressure for pressure in run.pressures if pressure.action == "stop"]


def kernel_kill(run: Run) -> KernelKill | None:
    """The process that the kernel killed for memory, if the recorder saw it."""
    if run.end is None or not run.end.killed_by_kernel:
        return None
    row = _victim(run)
    if row is None:
        return KernelKill(0, "", run.peak_bytes)
    found = run.snapshots.by_pid.get(row.pid)
    if found is None:
        return KernelKill(row.pid, row.command, row.rss_bytes)
    statement = found.now.statement
    entries = sorted(statement.entries, key=lambda entry: -entry.resident_bytes)
    return KernelKill(
        row.pid,
        row.command or statement.command,
        row.rss_bytes or statement.rss_bytes,
        tuple((entry.account, entry.resident_bytes) for entry in entries[:_TOP]),
        _grew_last(run, row),
    )


def _victim(run: Run) -> Process | None:
    """The root if a SIGKILL ended it; else, of those that ended just now, the largest."""
    rows = run.processes.rows
    root = rows.get(run.processes.root_pid or 0)
    if run.end is None or (root is not None and run.end.signal == SIGKILL):
        return root
    since = run.now_seconds - _JUST_NOW_SECONDS
    ended = [
        row
        for row in rows.values()
        if row.ended_at is not None and row.ended_at >= since and row is not root
    ]
    return max(ended, key=lambda row: row.rss_bytes, default=root)


def _grew_last(run: Run, victim: Process | None) -> Grown | None:
    """The account that grew most up to the last snapshot; or, if more, what grew after it."""
    found = run.snapshots.by_pid.get(victim.pid) if victim is not None else None
    seen = _seen(found)
    by_account = _grew_in_snapshots(seen)
    since = seen[-1][0] if seen else 0.0
    levels = [point for point in run.tree.points[-_RECENT_SAMPLES:] if point[0] >= since]
    if not levels:
        return by_account
    now, level = levels[-1]
    t, lowest = min(levels, key=lambda point: point[1])
    least = max(_WORTH_BYTES, by_account[1] if by_account else 0)
    return (UNATTRIBUTED, level - lowest, now - t) if level - lowest >= least else by_account


def _seen(found: ProcessSnapshots | None) -> list[Seen]:
    recent = found.recent if found is not None else ()
    return [(snapshot.t, account_totals(snapshot.statement)) for snapshot in recent]


def _grew_in_snapshots(seen: Sequence[Seen]) -> Grown | None:
    """Since the latest snapshot that shows growth up to the last one."""
    for t, before in reversed(seen[:-1]):
        now, after = seen[-1]
        growth = {account: size - before.get(account, 0) for account, size in after.items()}
        most = max(growth, key=lambda account: growth[account], default="")
        if growth.get(most, 0) >= _WORTH_BYTES:
            return most, growth[most], now - t
    return None
