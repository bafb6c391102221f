"""A run that is watched: whether its processes hold their targets, and how long they have."""

from dataclasses import dataclass
from typing import Any, Self

from ramledger.errors import ConfigError
from ramledger.ledger import Limit
from ramledger.run.model import Run
from ramledger.run.processes import MAX_PROCESSES, Process
from ramledger.run.time_left import TOO_FEW, TimeLeft, time_left
from ramledger.units import format_bytes, parse_bytes

WATCH_SCHEMA = "ramledger.watch/1"
_REFRESH_SECONDS = 3.0  # between two estimates of one process: they cost some milliseconds
_NO_LIMIT_BYTES = 1 << 62
_TARGET_HINT = "as in rss=15GiB,threads=30,total=25GiB"


@dataclass(frozen=True, slots=True)
class Targets:
    """What should hold: bytes and threads of each process, bytes of all together."""

    rss_bytes: int | None = None
    threads: int | None = None
    total_bytes: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `rss=15GiB,threads=30,total=25GiB`; any of the three, in any order."""
        found: dict[str, int] = {}
        for part in text.split(",") if text.strip() else ():
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or name not in ("rss", "threads", "total"):
                raise ConfigError(f"not a target: {part.strip()!r}", hint=_TARGET_HINT)
            if name in found:
                raise ConfigError(f"the target {name} is given twice", hint=_TARGET_HINT)
            found[name] = _thread_count(value) if name == "threads" else _size(value)
        return cls(found.get("rss"), found.get("threads"), found.get("total"))


@dataclass(frozen=True, slots=True)
class Check:
    """One target held against one value; `pid` is None for the total."""

    target: str
    pid: int | None
    value: int
    most: int

    @property
    def is_met(self) -> bool:
        return self.value <= self.most

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "pid": self.pid,
            "value": self.value,
            "most": self.most,
            "met": self.is_met,
        }

    def __str__(self) -> str:
        who = "total" if self.pid is None else f"{self.pid}"
        if self.target == "threads":
            return f"{who} has {self.value} threads, target {self.most}"
        return f"{who} holds {format_bytes(self.value)}, target {format_bytes(self.most)}"


class Watch:
    """Targets and time left of the processes of a run; what is known of them is in `run`."""

    def __init__(self, run: Run, targets: Targets | None = None) -> None:
        self.run = run
        self.targets = targets or Targets()
        self._outlooks: dict[int, tuple[float, TimeLeft]] = {}  # by pid: when, and what

    @property
    def rows(self) -> list[Process]:
        """Processes that are alive, the largest first."""
        return self.run.processes.alive

    @property
    def total(self) -> Process:
        return self.run.processes.total

    @property
    def counted_once_bytes(self) -> int:
        return self.run.processes.counted_once_bytes

    def ended_since(self, count: int) -> list[Process]:
        """Processes that ended after so many others had."""
        fresh = self.run.processes.ended_count - count
        return list(self.run.processes.ended)[-fresh:] if fresh else []

    def checks(self) -> list[Check]:
        """Every target against every process, the total last."""
        found = []
        for row in self.rows:
            if self.targets.rss_bytes is not None:
                found.append(Check("rss", row.pid, row.rss_bytes, self.targets.rss_bytes))
            if self.targets.threads is not None:
                found.append(Check("threads", row.pid, row.threads, self.targets.threads))
        if self.targets.total_bytes is not None:
            most = self.targets.total_bytes
            found.append(Check("total", None, self.counted_once_bytes, most))
        return found

    def missed(self) -> list[Check]:
        """The targets that do not hold."""
        return [check for check in self.checks() if not check.is_met]

    def outlook(self, row: Process) -> TimeLeft:
        """Its growth and the time until its target or limit; computed anew every few seconds."""
        now = self.run.now_seconds
        at, found = self._outlooks.get(row.pid, (float("-inf"), None))
        if found is None or now - at >= _REFRESH_SECONDS or found.reason == TOO_FEW:
            if len(self._outlooks) > 2 * MAX_PROCESSES:
                self._outlooks.clear()  # of processes that are long gone
            found = time_left(row.series.points, self._limit_bytes(row))
            self._outlooks[row.pid] = now, found
        return found

    def end_of(self, row: Process) -> Limit | None:
        """Where its growth ends: at the target unless missed already, or at its memory limit."""
        target = self.targets.total_bytes if row is self.total else self.targets.rss_bytes
        if target is not None and row.series.last <= target:
            return Limit(target, "target")
        return row.limit

    def _limit_bytes(self, row: Process) -> int:
        """The limit minus what other processes hold of it, comparable with its own series."""
        end = self.end_of(row)
        if end is not None and end.source == "target":
            return end.bytes + 1
        room = row.headroom_bytes
        return _NO_LIMIT_BYTES if room is None else row.series.last + room

    def to_dict(self, at: float) -> dict[str, Any]:
        """The public JSON document (`ramledger.watch/1`)."""
        return {
            "schema": WATCH_SCHEMA,
            "at": at,
            "processes": [self._row_dict(row) for row in self.rows],
            "total": self._row_dict(self.total) | {"counted_once_bytes": self.counted_once_bytes},
            "shm_bytes": self.run.shm_bytes,
            "usage_bytes": self.run.cgroup_bytes,
            "available_bytes": self.run.available_bytes,
            "targets": [check.to_dict() for check in self.checks()],
            "ended": [
                {"pid": row.pid, "command": row.command, "peak_bytes": row.peak_bytes}
                for row in self.run.processes.ended
            ],
        }

    def _row_dict(self, row: Process) -> dict[str, Any]:
        found = self.outlook(row)
        generation, phase = self.run.doing.get(row.pid, (None, ""))
        who = {
            "pid": row.pid, "parent_pid": row.parent_pid, "command": row.command,
            "generation": generation, "phase": phase,
        }  # fmt: skip
        return ({} if row is self.total else who) | {
            "rss_bytes": row.rss_bytes,
            "anon_bytes": row.memory.anon_bytes,
            "file_bytes": row.memory.file_bytes,
            "shmem_bytes": row.memory.shmem_bytes,
            "swap_bytes": row.memory.swap_bytes,
            "pss_bytes": row.pss_bytes,
            "peak_bytes": row.peak_bytes,
            "threads": row.threads,
            "limit": row.limit and {"bytes": row.limit.bytes, "source": row.limit.source},
            "room_bytes": row.headroom_bytes,
            "bytes_per_second": round(found.bytes_per_second),
            "seconds_left": found.seconds_left,
            "low_seconds": found.low_seconds,
            "high_seconds": found.high_seconds,
            "outlook": found.reason,
        }


def _thread_count(text: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise ConfigError(f"not a number of threads: {text!r}", hint=_TARGET_HINT)
    return int(text)


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ConfigError as error:
        raise ConfigError(error.message, hint=_TARGET_HINT) from None
