"""What is known of processes that are watched, and whether they hold their targets."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ramledger.errors import ConfigError
from ramledger.ledger import Limit
from ramledger.run.forecast import TOO_FEW, Forecast, forecast
from ramledger.run.series import Series
from ramledger.units import format_bytes, parse_bytes

WATCH_SCHEMA = "ramledger.watch/1"
_REFRESH_SECONDS = 3.0  # between two forecasts of one process: they cost some milliseconds
_NO_LIMIT_BYTES = 1 << 62
_MAX_ROWS = 1000
_MAX_ENDED = 50
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


@dataclass(slots=True)
class WatchRow:
    """One process, or all of them together."""

    pid: int
    command: str = ""
    parent_pid: int = 0
    anon_bytes: int = 0
    file_bytes: int = 0
    shmem_bytes: int = 0
    swap_bytes: int = 0
    threads: int = 0
    counted_twice_bytes: int | None = None  # RSS less PSS when PSS was read
    peak_bytes: int = 0
    room_bytes: int | None = None
    limit: Limit | None = None
    generation: int | None = None
    phase: str = ""
    series: Series = field(default_factory=lambda: Series(120, 120))
    outlook: Forecast = field(default=Forecast(None, None, None, TOO_FEW))
    forecast_at: float = float("-inf")

    @property
    def rss_bytes(self) -> int:
        return self.anon_bytes + self.file_bytes + self.shmem_bytes

    @property
    def pss_bytes(self) -> int | None:
        """As last read, moved along with RSS since; None if it was never read."""
        if self.counted_twice_bytes is None:
            return None
        return max(0, self.rss_bytes - self.counted_twice_bytes)


class WatchState:
    """What the events told so far, in bounded memory."""

    def __init__(self, targets: Targets | None = None) -> None:
        self.targets = targets or Targets()
        self.rows: dict[int, WatchRow] = {}
        self.total = WatchRow(0, "all")
        self.ended: deque[tuple[float, WatchRow]] = deque(maxlen=_MAX_ENDED)
        self.ended_count = 0
        self.t = 0.0
        self.shm_bytes = 0
        self.usage_bytes: int | None = None
        self.available_bytes: int | None = None
        self._rooms: dict[str, tuple[int, Limit]] = {}

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take one event in; unknown ones are ignored."""
        handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "process": self._process,
            "process-end": self._process_end,
            "sample": self._sample,
            "room": self._room,
            "now": self._now,
        }
        handler = handlers.get(str(event.get("event")))
        if handler is not None:
            self.t = max(self.t, float(event.get("t", 0.0)))
            handler(event)

    @property
    def largest_first(self) -> list[WatchRow]:
        return sorted(self.rows.values(), key=lambda row: (-row.rss_bytes, row.pid))

    @property
    def once_bytes(self) -> int:
        """All together, pages that several map counted once; as RSS while PSS is not known."""
        pss_bytes = self.total.pss_bytes
        return self.total.rss_bytes if pss_bytes is None else pss_bytes

    def ended_since(self, count: int) -> list[WatchRow]:
        """Processes that ended after so many others had."""
        fresh = self.ended_count - count
        return [row for _, row in self.ended][-fresh:] if fresh else []

    def checks(self) -> list[Check]:
        """Every target against every process, the total last."""
        found = []
        for row in self.largest_first:
            if self.targets.rss_bytes is not None:
                found.append(Check("rss", row.pid, row.rss_bytes, self.targets.rss_bytes))
            if self.targets.threads is not None:
                found.append(Check("threads", row.pid, row.threads, self.targets.threads))
        if self.targets.total_bytes is not None:
            found.append(Check("total", None, self.once_bytes, self.targets.total_bytes))
        return found

    def missed(self) -> list[Check]:
        """The targets that do not hold."""
        return [check for check in self.checks() if not check.is_met]

    def outlook(self, row: WatchRow) -> Forecast:
        """Its growth and the time until its target or limit; computed anew every few seconds."""
        if self.t - row.forecast_at >= _REFRESH_SECONDS or row.outlook.reason == TOO_FEW:
            row.forecast_at = self.t
            limit_bytes = self._limit_bytes(row)
            row.outlook = forecast(row.series.times, row.series.values, limit_bytes)
        return row.outlook

    def end_of(self, row: WatchRow) -> Limit | None:
        """Where its growth ends: at the target unless missed already, or at its memory limit."""
        target = self.targets.total_bytes if row is self.total else self.targets.rss_bytes
        if target is not None and row.series.last <= target:
            return Limit(target, "target")
        return row.limit

    def _limit_bytes(self, row: WatchRow) -> int:
        """In the measure of its own series: others share the limit, and hold some of it already."""
        end = self.end_of(row)
        if end is not None and end.source == "target":
            return end.bytes + 1
        return _NO_LIMIT_BYTES if row.room_bytes is None else row.series.last + row.room_bytes

    def _process(self, event: Mapping[str, Any]) -> None:
        row = self._row(int(event["pid"]))
        row.command = str(event.get("command", ""))
        row.parent_pid = int(event.get("parent", 0))

    def _process_end(self, event: Mapping[str, Any]) -> None:
        row = self.rows.pop(int(event["pid"]), None)
        if row is not None:
            self.ended.append((self.t, row))
            self.ended_count += 1

    def _sample(self, event: Mapping[str, Any]) -> None:
        known_pss = event.get("pss", {})
        for pid, numbers in event["processes"].items():
            row = self._row(int(pid))
            _take(row, numbers, known_pss.get(pid))
            row.series.add(self.t, row.rss_bytes)
        _take(self.total, _sums(event["processes"].values()), None)
        twice = [row.counted_twice_bytes for row in self.rows.values()]
        known = [size_bytes for size_bytes in twice if size_bytes is not None]
        self.total.counted_twice_bytes = sum(known) if known else None
        self.total.series.add(self.t, self.once_bytes)
        self.shm_bytes = int(event.get("shm_bytes", 0))
        self.usage_bytes = event.get("usage_bytes")
        self.available_bytes = event.get("available_bytes")

    def _now(self, event: Mapping[str, Any]) -> None:
        row = self.rows.get(int(event["pid"]))
        if row is not None:
            generation = event.get("generation")
            row.generation = generation if isinstance(generation, int) else None
            row.phase = str(event.get("phase") or "")

    def _room(self, event: Mapping[str, Any]) -> None:
        limit = Limit(int(event["limit"]["bytes"]), str(event["limit"]["source"]))
        self._rooms[limit.source] = int(event["bytes"]), limit
        for pid in event["pids"]:
            if pid in self.rows:
                self.rows[pid].room_bytes, self.rows[pid].limit = self._rooms[limit.source]
        # all together end where the first of them does
        self.total.room_bytes, self.total.limit = min(self._rooms.values(), key=lambda r: r[0])

    def _row(self, pid: int) -> WatchRow:
        if pid not in self.rows:
            if len(self.rows) >= _MAX_ROWS:
                del self.rows[min(self.rows, key=lambda old: self.rows[old].rss_bytes)]
            self.rows[pid] = WatchRow(pid)
        return self.rows[pid]

    def to_dict(self, at: float) -> dict[str, Any]:
        """The public JSON document (`ramledger.watch/1`)."""
        return {
            "schema": WATCH_SCHEMA,
            "at": at,
            "processes": [self._row_dict(row) for row in self.largest_first],
            "total": self._row_dict(self.total) | {"counted_once_bytes": self.once_bytes},
            "shm_bytes": self.shm_bytes,
            "usage_bytes": self.usage_bytes,
            "available_bytes": self.available_bytes,
            "targets": [
                {
                    "target": c.target,
                    "pid": c.pid,
                    "value": c.value,
                    "most": c.most,
                    "met": c.is_met,
                }
                for c in self.checks()
            ],
            "ended": [
                {"pid": row.pid, "command": row.command, "peak_bytes": row.peak_bytes}
                for _, row in self.ended
            ],
        }

    def _row_dict(self, row: WatchRow) -> dict[str, Any]:
        found = self.outlook(row)
        who = {
            "pid": row.pid, "parent_pid": row.parent_pid, "command": row.command,
            "generation": row.generation, "phase": row.phase,
        }  # fmt: skip
        return ({} if row is self.total else who) | {
            "rss_bytes": row.rss_bytes,
            "anon_bytes": row.anon_bytes,
            "file_bytes": row.file_bytes,
            "shmem_bytes": row.shmem_bytes,
            "swap_bytes": row.swap_bytes,
            "pss_bytes": row.pss_bytes,
            "peak_bytes": row.peak_bytes,
            "threads": row.threads,
            "limit": row.limit and {"bytes": row.limit.bytes, "source": row.limit.source},
            "room_bytes": row.room_bytes,
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


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)] or [0] * 5


def _take(row: WatchRow, numbers: Sequence[int], pss_bytes: int | None) -> None:
    row.anon_bytes, row.file_bytes, row.shmem_bytes, row.swap_bytes, row.threads = numbers[:5]
    row.peak_bytes = max(row.peak_bytes, row.rss_bytes)
    if pss_bytes is not None:
        row.counted_twice_bytes = max(0, row.rss_bytes - pss_bytes)
