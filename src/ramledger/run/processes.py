"""The processes of a run as last seen, those that ended, and what they hold together."""

from collections import deque
from dataclasses import dataclass, field, replace

from ramledger.event_parts import ProcessMemory
from ramledger.events import HeadroomEvent, ProcessEndEvent, ProcessEvent, SampleEvent
from ramledger.ledger import Limit
from ramledger.run.series import Series

MAX_PROCESSES = 1000
MAX_ENDED = 50
_NOTHING = ProcessMemory()


def _short_series() -> Series:
    return Series(120, 120)


@dataclass(slots=True)
class Process:
    """One process, or all of them together (pid 0)."""

    pid: int
    parent_pid: int = 0
    command: str = ""
    has_agent: bool = False
    is_worker: bool = False  # of multiprocessing
    name: str = ""  # `env runner 3`, where an integration knows
    node: str = ""
    memory: ProcessMemory = _NOTHING
    counted_twice_bytes: int | None = None  # RSS minus PSS, when PSS was read last
    inherited_bytes: int = 0  # pages that a fork shared with its parent when it was seen first
    private_bytes: int = 0  # the most that it had for itself of its anonymous pages
    peak_bytes: int = 0
    limit: Limit | None = None  # shared with others
    headroom_bytes: int | None = None  # what is left until that limit
    seen_at: float = 0.0
    ended_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    series: Series = field(default_factory=_short_series)  # its RSS; of all, see Processes

    @property
    def rss_bytes(self) -> int:
        return self.memory.resident_bytes

    @property
    def threads(self) -> int:
        return self.memory.threads

    @property
    def pss_bytes(self) -> int | None:
        """The last reading plus the growth of RSS since; None if it was never read."""
        if self.counted_twice_bytes is None:
            return None
        return max(0, self.rss_bytes - self.counted_twice_bytes)

    @property
    def is_alive(self) -> bool:
        return self.ended_at is None

    def _take(self, memory: ProcessMemory, pss_bytes: int | None) -> None:
        self.memory = memory
        self.peak_bytes = max(self.peak_bytes, self.rss_bytes)
        if pss_bytes is not None:
            self.counted_twice_bytes = max(0, self.rss_bytes - pss_bytes)


class Processes:
    """Fed with events; of very many, those that ended first are forgotten."""

    def __init__(self) -> None:
        self.rows: dict[int, Process] = {}
        self.root_pid: int | None = None
        # its series counts pages that several processes map once, as far as that is known
        self.total = Process(0, command="all", series=Series())
        self.ended: deque[Process] = deque(maxlen=MAX_ENDED)
        self.ended_count = 0
        self._headrooms: dict[str, tuple[int, Limit]] = {}

    @property
    def alive(self) -> list[Process]:
        """The largest first."""
        rows = [row for row in self.rows.values() if row.is_alive]
        return sorted(rows, key=lambda row: (-row.rss_bytes, row.pid))

    @property
    def counted_once_bytes(self) -> int:
        """All together, pages that several map counted once; RSS while PSS is not known."""
        pss_bytes = self.total.pss_bytes
        return self.total.rss_bytes if pss_bytes is None else pss_bytes

    def started(self, event: ProcessEvent) -> None:
        row = self._row(event.pid)
        if not row.is_alive:  # the kernel gave the pid to another process
            row = self.rows[event.pid] = replace(
                row, ended_at=None, exit_code=None, signal=None, series=_short_series(),
                inherited_bytes=0, private_bytes=0,
            )  # fmt: skip
        row.parent_pid = event.parent_pid or row.parent_pid
        row.command = event.command or row.command
        row.has_agent = event.has_agent or row.has_agent
        row.is_worker = event.is_worker or row.is_worker
        row.inherited_bytes = event.inherited_bytes or row.inherited_bytes
        row.name, row.node = event.name or row.name, event.node or row.node

    def has_ended(self, event: ProcessEndEvent, t: float) -> None:
        row = self.rows.get(event.pid)
        if row is not None:
            if row.is_alive:
                self.ended.append(row)
                self.ended_count += 1
            row.ended_at, row.exit_code, row.signal = t, event.exit_code, event.signal

    def sampled(self, event: SampleEvent, t: float) -> None:
        sums = [0, 0, 0, 0, 0]
        for pid, memory in event.processes.items():
            row = self._row(pid)
            row._take(memory, event.pss_bytes.get(pid))
            row.private_bytes = max(row.private_bytes, event.private_bytes.get(pid, 0))
            row.seen_at = t
            row.series.add(t, row.rss_bytes)
            for at, size in enumerate(
                (memory.anon_bytes, memory.file_bytes, memory.shmem_bytes, memory.swap_bytes,
                 memory.threads)
            ):  # fmt: skip
                sums[at] += size
        self.total._take(ProcessMemory(*sums), None)
        twice = [row.counted_twice_bytes for row in self.rows.values() if row.is_alive]
        known = [size_bytes for size_bytes in twice if size_bytes is not None]
        self.total.counted_twice_bytes = sum(known) if known else None

    def limited(self, event: HeadroomEvent) -> None:
        self._headrooms[event.limit.source] = event.bytes, event.limit
        for pid in event.pids:
            if pid in self.rows:
                row = self.rows[pid]
                row.headroom_bytes, row.limit = event.bytes, event.limit
        # the total is limited by the tightest limit
        tightest = min(self._headrooms.values(), key=lambda found: found[0])
        self.total.headroom_bytes, self.total.limit = tightest

    def _row(self, pid: int) -> Process:
        row = self.rows.get(pid)
        if row is None:
            if len(self.rows) >= MAX_PROCESSES:
                self._forget()
            row = self.rows[pid] = Process(pid)
            if self.root_pid is None:
                self.root_pid = pid
        return row

    def _forget(self) -> None:
        """Those that ended first, then those that were not seen for longest; some at a time."""
        rows = self.rows
        oldest = sorted(rows, key=lambda pid: (rows[pid].is_alive, rows[pid].seen_at))
        for pid in oldest[: MAX_PROCESSES // 20]:
            del rows[pid]
