"""What is known of a run, built event by event: live from the recorder, or from a recording.

Pure and bounded: however long the run, it takes a few MiB. Events of other processes are checked
as those of a recording are: a malformed one is counted and left out.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ramledger.event_codec import MalformedEventError
from ramledger.events_bridge import plain
from ramledger.ledger import Limit, Statement, printable
from ramledger.recording import Recording
from ramledger.run.ending import AT_EXIT, RECENT_LOOKS, used_of_limit
from ramledger.run.forecast import Forecast, Plateau, forecast
from ramledger.run.iterations import Trend, whole
from ramledger.run.series import Series

MAX_PROCESSES = 400
MAX_LOOKS = 16
MAX_ACCOUNTS = 80
MAX_NOTES = 40
MAX_FUNCTIONS = 200
UNEXPLAINED = "unexplained"

Event = Mapping[str, Any]


@dataclass(slots=True)
class ProcessRow:
    """One process of the tree, as last seen."""

    pid: int
    parent_pid: int = 0
    command: str = ""
    has_agent: bool = False
    name: str = ""  # `env runner 3`, where an integration knows
    node: str = ""
    python: str = ""
    anon_bytes: int = 0
    file_bytes: int = 0
    shmem_bytes: int = 0
    swap_bytes: int = 0
    threads: int = 0
    peak_bytes: int = 0
    seen_at: float = 0.0
    ended_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None

    @property
    def resident_bytes(self) -> int:
        return self.anon_bytes + self.file_bytes + self.shmem_bytes

    @property
    def is_alive(self) -> bool:
        return self.ended_at is None


@dataclass(frozen=True, slots=True)
class Look:
    """One deep snapshot: the statement and what was counted with it."""

    t: float
    statement: Statement
    generation: int | None
    phase: str
    label: str
    counts: Mapping[str, int]
    containers: tuple[Mapping[str, Any], ...]
    tensors_with_graph: int
    cost_seconds: float


@dataclass(slots=True)
class Looks:
    """The deep snapshots of one process that matter: the baseline, the last two, the largest."""

    baseline: Look
    previous: Look | None = None
    latest: Look | None = None
    peak: Look | None = None
    accounts: dict[str, Series] = field(default_factory=dict)
    recent: deque[Look] = field(default_factory=lambda: deque(maxlen=RECENT_LOOKS))

    @property
    def now(self) -> Look:
        return self.latest or self.baseline


class RunState:
    """Everything a view of a run shows. Feed it events in order with `apply`."""

    def __init__(self, header: Mapping[str, Any] | None = None) -> None:
        self.header: Mapping[str, Any] = header or {}
        self.limit: Limit | None = _limit(self.header.get("limit"))
        self.now_seconds = 0.0
        self.processes: dict[int, ProcessRow] = {}
        self.root_pid: int | None = None
        self.others_bytes = 0
        self.tree = Series()  # RSS of all processes, pages they share counted once
        self.used = Series()  # what counts against the limit
        self.peak_bytes = 0
        self.peak_at = 0.0
        self.peak_where: tuple[int | None, str] = (None, "")
        self.shm_bytes = 0
        self.available_bytes: int | None = None
        self.looks: dict[int, Looks] = {}
        self.trend = Trend()
        self.doing: dict[int, tuple[int | None, str]] = {}  # generation and phase, by pid
        self.function_growth: Counter[str] = Counter()
        self.loop: Mapping[str, Any] = {}
        self.expectations: deque[Event] = deque(maxlen=MAX_NOTES)
        self.pressures: deque[Event] = deque(maxlen=MAX_NOTES)
        self.notes: deque[str] = deque(maxlen=MAX_NOTES)
        self.failed_snapshots = 0
        self.plan: Mapping[str, Any] | None = None
        self.probe: Event | None = None
        self.end: Event | None = None
        self.malformed_events = 0
        self._shared_bytes = 0  # counted more than once in the sum of RSS, as last known
        self._sharing: frozenset[Any] = frozenset()
        self._generations: Counter[int] = Counter()

    @classmethod
    def from_recording(cls, recording: Recording) -> Self:
        """The state at the end of a recording."""
        state = cls(recording.header)
        for event in recording.events:
            state.take(event)
        state.notes.extend(recording.notes)
        return state

    def apply(self, event: Event) -> None:
        """Take in one event as another process sent it."""
        try:
            checked = plain(event)
        except MalformedEventError:
            self.malformed_events += 1
            return
        if checked is not None:
            self.take(checked)

    def take(self, event: Event) -> None:
        """Take in one event that was checked, as those of a Recording are."""
        handler = _HANDLERS.get(event["event"])
        if handler is not None:
            self.now_seconds = max(self.now_seconds, event["t"])
            handler(self, event)

    # ---- what views ask ---------------------------------------------------------------------

    @property
    def command(self) -> str:
        words = self.header.get("command")
        return " ".join(map(str, words)) if isinstance(words, list | tuple) else str(words or "")

    @property
    def alive(self) -> list[ProcessRow]:
        """Processes of the last sample, the largest first."""
        rows = [row for row in self.processes.values() if row.is_alive and row.resident_bytes]
        return sorted(rows, key=lambda row: -row.resident_bytes)

    @property
    def main_pid(self) -> int | None:
        """The process that trains: it has the generations, or else the most memory.

        Workers of a distributed training count rounds of their own; its driver comes first.
        """
        if self.root_pid in self._generations:
            return self.root_pid
        if self._generations:
            return self._generations.most_common(1)[0][0]
        if self.looks:
            return max(self.looks, key=lambda pid: self.looks[pid].now.statement.rss_bytes)
        return self.root_pid

    @property
    def main_looks(self) -> Looks | None:
        pid = self.main_pid
        found = self.looks.get(pid) if pid is not None else None
        return found or next(iter(self.looks.values()), None)

    @property
    def now(self) -> tuple[int | None, str]:
        """Generation and phase of the process that trains."""
        return self.doing.get(self.main_pid or 0, (None, ""))

    def growth_per_generation(self) -> float | None:
        """Bytes a generation by which the training process grows of late."""
        return self.trend.slope(self.main_pid)

    def outlook(self) -> Forecast | None:
        """How long until the limit; None without one."""
        if self.limit is None or not self.limit.bytes:
            return None
        times, levels = self.used.times, self.used.values
        return forecast(times, levels, self.limit.bytes, plateaus=self._plateaus())

    def _plateaus(self) -> list[Plateau]:
        """Buffers that are still filling, in all processes that were looked into."""
        return [
            Plateau(
                entry.account,
                entry.resident_bytes,
                entry.full_bytes,
                looks.accounts[entry.account].per_second,
            )
            for looks in self.looks.values()
            for entry in looks.now.statement.entries
            if entry.fill is not None and entry.fill < 1 and entry.account in looks.accounts
        ]

    # ---- events -----------------------------------------------------------------------------

    def _process(self, event: Event) -> None:
        row = self._row(whole(event["pid"]))
        row.parent_pid = whole(event.get("parent") or row.parent_pid)
        row.command = str(event.get("command") or row.command)
        row.has_agent = bool(event.get("agent")) or row.has_agent
        row.python = str(event.get("python") or row.python)
        row.name, row.node = str(event.get("name") or row.name), str(event.get("node") or row.node)
        row.ended_at = None

    def _process_end(self, event: Event) -> None:
        row = self.processes.get(whole(event["pid"]))
        if row is not None:
            row.ended_at = self.now_seconds
            row.exit_code = _optional(event.get("exit_code"))
            row.signal = _optional(event.get("signal"))

    def _sample(self, event: Event) -> None:
        resident = self._update_rows(event["processes"])
        others = event.get("others") or [0, 0, 0, 0, 0]
        self.others_bytes = sum(map(whole, others[:3]))
        resident += self.others_bytes
        is_sure = self._update_shared(event, resident)
        level = max(0, resident - self._shared_bytes)
        self.shm_bytes = whole(event.get("shm_bytes") or 0)
        self.available_bytes = _optional(event.get("available_bytes"))
        self.tree.add(self.now_seconds, level)
        limit = {"bytes": self.limit.bytes, "source": self.limit.source} if self.limit else None
        self.used.add(self.now_seconds, used_of_limit(event, level, limit))
        high = max(level, whole(event.get("high") or 0) - self._shared_bytes)
        if high > self.peak_bytes and (is_sure or not self.peak_bytes):
            self.peak_bytes, self.peak_at, self.peak_where = high, self.now_seconds, self.now

    def _update_shared(self, event: Event, resident: int) -> bool:
        """Pages that several processes map are in RSS several times, and PSS is read now and then.

        Whether what is known fits the processes there are: forked ones share nearly everything.
        """
        used = event.get("used_bytes")
        if used is not None:
            self._shared_bytes = max(0, resident - used)
            return True
        pids = frozenset(event["processes"])
        pss = event.get("tree_pss_bytes")
        if len(pids) < 2:  # what it shares with strangers is still its own
            self._shared_bytes, self._sharing = 0, pids
        elif pss is not None:
            self._shared_bytes, self._sharing = max(0, resident - whole(pss)), pids
        return pids <= self._sharing

    def _update_rows(self, rows: Mapping[Any, Any]) -> int:
        resident = 0
        for key, numbers in rows.items():
            anon, file, shmem, swap, threads = map(whole, numbers[:5])
            row = self._row(whole(key))
            row.anon_bytes, row.file_bytes, row.shmem_bytes = anon, file, shmem
            row.swap_bytes, row.threads = swap, threads
            row.peak_bytes = max(row.peak_bytes, row.resident_bytes)
            row.seen_at = self.now_seconds
            resident += row.resident_bytes
        return resident

    def _row(self, pid: int) -> ProcessRow:
        row = self.processes.get(pid)
        if row is None:
            if len(self.processes) >= MAX_PROCESSES:
                self._forget_processes()
            row = self.processes[pid] = ProcessRow(pid)
            if self.root_pid is None:
                self.root_pid = pid
        return row

    def _forget_processes(self) -> None:
        """Those that ended first, then those that were not seen for longest; some at a time."""
        rows = self.processes
        oldest = sorted(rows, key=lambda pid: (rows[pid].is_alive, rows[pid].seen_at))
        for pid in oldest[: MAX_PROCESSES // 20]:
            del rows[pid]

    def _phase(self, event: Event) -> None:
        pid = whole(event["pid"])
        self.trend.add_phase(pid, self.now_seconds, event)
        self.doing[pid] = (_optional(event.get("generation")), self.doing.get(pid, (None, ""))[1])

    def _generation(self, event: Event) -> None:
        pid = whole(event["pid"])
        self._generations[pid] += 1
        self.trend.add_generation(pid, self.now_seconds, event)
        self.doing[pid] = (whole(event["generation"]), self.doing.get(pid, (None, ""))[1])

    def _now(self, event: Event) -> None:
        self.doing[whole(event["pid"])] = (
            _optional(event.get("generation")),
            str(event.get("phase") or ""),
        )

    def _snapshot(self, event: Event) -> None:
        pid = whole(event["pid"])
        look = _look(self.now_seconds, event)
        looks = self.looks.get(pid)
        if looks is None:
            if len(self.looks) >= MAX_LOOKS:
                smallest = min(self.looks, key=lambda p: self.looks[p].now.statement.rss_bytes)
                del self.looks[smallest]
            looks = self.looks[pid] = Looks(look)
        elif look.phase == AT_EXIT:
            if not _is_start(looks.now):
                return  # the program's own functions, and what they held, are gone by then
        elif look.label == "baseline" or (_is_start(looks.baseline) and not _is_start(look)):
            looks.baseline = look
        looks.previous, looks.latest = looks.latest, look
        if look.phase != AT_EXIT:
            looks.recent.append(look)
        if looks.peak is None or look.statement.rss_bytes > looks.peak.statement.rss_bytes:
            looks.peak = look
        _book(looks.accounts, look)
        if look.label and look.phase != AT_EXIT:
            self.trend.add_label(pid, self.now_seconds, look.label, look.statement.rss_bytes)

    def _functions(self, event: Event) -> None:
        for name, grown in dict(event.get("growth_bytes") or {}).items():
            self.function_growth[str(name)] += whole(grown)
        if len(self.function_growth) > MAX_FUNCTIONS:
            self.function_growth = Counter(
                dict(self.function_growth.most_common(MAX_FUNCTIONS // 2))
            )
        loop = event.get("loop")
        if isinstance(loop, Mapping):
            self.loop = loop

    def _expectation(self, event: Event) -> None:
        _ = whole(event["found"]), whole(event["expected"]), str(event["type"])
        self.expectations.append(event)

    def _pressure(self, event: Event) -> None:
        _ = whole(event["usage_bytes"]), whole(event["limit_bytes"])
        self.pressures.append(event)

    def _note(self, event: Event) -> None:
        text = str(event["text"])
        if text not in self.notes:
            self.notes.append(text)

    def _snapshot_failed(self, event: Event) -> None:
        self.failed_snapshots += 1
        self._note({"text": f"a snapshot failed: {event['reason']}"})

    def _plan(self, event: Event) -> None:
        self.plan = dict(event["plan"])

    def _probe(self, event: Event) -> None:
        self.probe = event

    def _end(self, event: Event) -> None:
        self.end = event
        if not len(self.tree):  # else ours is better: it counts shared pages once
            self.peak_bytes = whole(event.get("peak_bytes") or 0)


def _limit(data: Any) -> Limit | None:
    try:
        return Limit(whole(data["bytes"]), printable(str(data.get("source")))) if data else None
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _optional(number: Any) -> int | None:
    return None if number is None else whole(number)


def _is_start(look: Look) -> bool:
    """Taken before the first generation was over: imports and first allocations are no growth."""
    return look.generation is None and not look.label


def _look(t: float, event: Event) -> Look:
    containers: Iterable[Any] = event.get("containers") or ()
    return Look(
        t=t,
        statement=Statement.from_dict(event["statement"]),
        generation=_optional(event.get("generation")),
        phase=str(event.get("phase") or ""),
        label=str(event.get("label") or ""),
        counts={str(name): whole(n) for name, n in dict(event.get("counts") or {}).items()},
        containers=tuple(item for item in containers if isinstance(item, Mapping)),
        tensors_with_graph=whole(event.get("tensors_with_graph") or 0),
        cost_seconds=float(event.get("cost_seconds") or 0.0),
    )


def _book(accounts: dict[str, Series], look: Look) -> None:
    """Append to the history of every account; what is gone reads zero from now on."""
    totals = account_totals(look.statement)
    for account in {*accounts, *totals}:
        if account not in accounts:
            accounts[account] = Series(whole=80, recent=40)
        accounts[account].add(look.t, totals.get(account, 0))
    for account in sorted(accounts, key=lambda name: -accounts[name].last)[MAX_ACCOUNTS:]:
        del accounts[account]


def account_totals(statement: Statement) -> dict[str, int]:
    """Resident bytes by account, `unexplained` among them."""
    totals: Counter[str] = Counter()
    for entry in statement.entries:
        totals[entry.account] += entry.resident_bytes
    return {**totals, UNEXPLAINED: statement.unexplained_bytes}


_HANDLERS = {
    "process": RunState._process,
    "process-end": RunState._process_end,
    "sample": RunState._sample,
    "phase": RunState._phase,
    "generation": RunState._generation,
    "now": RunState._now,
    "snapshot": RunState._snapshot,
    "outline": RunState._snapshot,
    "functions": RunState._functions,
    "expectation": RunState._expectation,
    "pressure": RunState._pressure,
    "note": RunState._note,
    "snapshot-failed": RunState._snapshot_failed,
    "plan": RunState._plan,
    "probe": RunState._probe,
    "end": RunState._end,
}
