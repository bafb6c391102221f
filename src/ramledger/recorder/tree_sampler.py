"""Samples of a process tree from outside: one small file a process, nothing walked or held.

The counters are the kernel's own and may lag by some pages per CPU: good for a trend, while the
numbers of a statement come from smaps.
"""

import os
import shlex
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from types import TracebackType
from typing import Self

from ramledger.errors import MeasureError, ProcessGoneError
from ramledger.event_parts import ProcessMemory
from ramledger.events import SampleEvent
from ramledger.ledger import Limit
from ramledger.measure import proc
from ramledger.measure.limits import FoundLimit, limits
from ramledger.recorder.run_shm import RunSharedMemory
from ramledger.time_share import CREDIT_SECONDS, Governor

PSS_SHARE = 0.005  # of the time at most, for reading PSS
PSS_REST_SECONDS = 10.0
_PSS_SETTLE_SECONDS = 0.5  # ... or after processes came or went
_LISTING_SHARE = 0.01
_LIMITS_SHARE = 0.001
_CREDIT_SECONDS = 0.002  # the first time they are read at once
_PSS_SECONDS_PER_BYTE = 0.02 / (1 << 30)  # small pages; a process of huge pages is 100 times faster
_PSS_SECONDS_PER_PROCESS = 0.0002

MOST_LISTED = 16  # processes one by one in an event; the others are summed
_STATUS_BYTES = 8192
_LONGEST_STATUS_BYTES = 1 << 20  # 65,536 groups of ten digits fit
_HELD_FILES = 256  # a quarter of the usual limit on open files
_FRESH_LOOKS = 3  # a process that has just been forked may run another program in a moment


@dataclass(frozen=True, slots=True)
class SampledProcess:
    """One process in a sample. A zombie is not in a sample: it has no memory."""

    pid: int
    parent_pid: int
    command: str
    anon_bytes: int
    file_bytes: int
    shmem_bytes: int
    swap_bytes: int
    threads: int
    start_ticks: int = 0  # with the pid, identifies it: see KnownProcess

    @property
    def resident_bytes(self) -> int:
        return self.anon_bytes + self.file_bytes + self.shmem_bytes

    @property
    def memory(self) -> ProcessMemory:
        """Its row in a `sample` event."""
        return ProcessMemory(
            self.anon_bytes, self.file_bytes, self.shmem_bytes, self.swap_bytes, self.threads
        )


@dataclass(frozen=True, slots=True)
class TreeSample:
    """All processes of a tree at one instant. RSS counts pages that several map several times.

    `usage_bytes` is what the tightest control group counts, None without one; `tree_pss_bytes` is
    known in a few samples only; `used_bytes` goes by it, and counts shared pages once.
    """

    processes: tuple[SampledProcess, ...]
    shm_bytes: int
    usage_bytes: int | None
    available_bytes: int
    tree_pss_bytes: int | None
    used_bytes: int
    private_bytes: Mapping[int, int] = field(default_factory=dict)  # by pid, known with PSS

    @property
    def resident_bytes(self) -> int:
        return sum(process.resident_bytes for process in self.processes)


@dataclass(frozen=True, slots=True)
class Headroom:
    """How many bytes a process may still take before the first limit that ends it is reached."""

    bytes: int
    limit: Limit


class TreeSampler:
    """Follows a process and what it starts, also after a parent ended or let its child go.

    With `children=False` only the process itself and those adopted are followed. `share`: of the
    usual cost, of all that takes more than one small file.
    """

    def __init__(self, root_pid: int, *, children: bool = True, share: float = 1.0) -> None:
        proc.require_linux()
        self.root_pid = root_pid
        self.pss_bytes: dict[int, int] = {}  # by pid, as last read
        self.private_bytes: dict[int, int] = {}  # anonymous, of nobody else: read with PSS
        self._followed: dict[int, _Followed] = {}
        self._follows_children = children
        self._seen: frozenset[str] = frozenset()
        self._must_list = False
        self._listing = Governor(_LISTING_SHARE * share, credit=_CREDIT_SECONDS)
        self._limits = Governor(_LIMITS_SHARE * share, credit=_CREDIT_SECONDS)
        self._usage: tuple[int | None, int] = (None, 0)
        self._pss = Governor(PSS_SHARE * share, credit=CREDIT_SECONDS * share)
        self._pss_rest_seconds = PSS_REST_SECONDS / share
        self._pss_at = -PSS_REST_SECONDS
        self._pss_pids: frozenset[int] = frozenset()
        self._shm = RunSharedMemory()
        self._shared: dict[int, int] = {}  # by pid: bytes of its RSS that others count
        self.adopt(root_pid)

    def adopt(self, pid: int) -> bool:
        """Follow this process and its descendants too; False when it is gone already."""
        if pid not in self._followed and not self._follow(pid):
            return False
        self._seen = frozenset()  # its children may have been taken for strangers
        self._must_list = True
        return True

    def sample(self) -> TreeSample:
        """Read all processes; those that ended are dropped, new descendants are found."""
        if self._follows_children and (self._must_list or self._listing.allows()):
            began = time.perf_counter()
            self._must_list = False
            self._find_descendants()
            self._listing.spend(time.perf_counter() - began)
        processes = (*self._read_all(),)  # built as a list: a snapshot must not see half a tuple
        usage_bytes, available_bytes = self._usage_now(processes)
        tree_pss_bytes = self._tree_pss(processes)
        return TreeSample(
            processes,
            self._shm.size_bytes(
                [process.pid for process in processes],
                sum(process.shmem_bytes for process in processes),
            ),
            usage_bytes,
            available_bytes,
            tree_pss_bytes,
            self._used(processes),
            {} if tree_pss_bytes is None else dict(self.private_bytes),
        )

    def read_pss(self, processes: Iterable[SampledProcess]) -> int | None:
        """The PSS of these processes, now and whatever it costs; None unless all may be read."""
        self.pss_bytes, self.private_bytes = {}, {}
        is_whole = True
        for process in processes:
            try:
                rollup = proc.read_bytes(process.pid, "smaps_rollup")
            except ProcessGoneError:
                continue
            except MeasureError:
                is_whole = False
                continue
            self.pss_bytes[process.pid] = _field_bytes(rollup, b"\nPss:")
            self.private_bytes[process.pid] = _field_bytes(rollup, b"\nPrivate_Dirty:")
        return sum(self.pss_bytes.values()) if is_whole else None

    def close(self) -> None:
        """Let go of all processes."""
        for followed in self._followed.values():
            followed.close()
        self._followed.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _follow(self, pid: int) -> bool:
        try:
            self._followed[pid] = _Followed(pid, hold=len(self._followed) < _HELD_FILES)
        except MeasureError:
            return False
        return True

    def _find_descendants(self) -> None:
        """One directory listing, and the parents of newcomers only.

        A process never becomes a descendant later, so others are read once. Files that
        list children, task/*/children, take one reading a thread and exist on few kernels.
        """
        names = frozenset(os.listdir(proc.PROC))
        parents: dict[int, int] = {}
        unsure: set[str] = set()
        for name in names - self._seen:
            if name.isdecimal() and int(name) not in self._followed:
                try:
                    parents[int(name)] = proc.read_stat(int(name)).parent_pid
                except MeasureError:
                    unsure.add(name)
        self._follow_children_among(parents)
        # a parent that is not listed was born during the listing, or has just ended
        unsure |= {str(pid) for pid, parent in parents.items() if f"{parent or 1}" not in names}
        self._seen = names - unsure

    def _follow_children_among(self, parents: Mapping[int, int]) -> None:
        waiting = dict(parents)
        while found := [pid for pid, parent in waiting.items() if parent in self._followed]:
            for pid in found:
                del waiting[pid]
                self._follow(pid)

    def _read_all(self) -> Iterable[SampledProcess]:
        for pid, followed in list(self._followed.items()):
            try:
                process = followed.read()
            except MeasureError:
                self._followed.pop(pid).close()
                continue
            if process is not None:
                yield process

    def _usage_now(self, processes: tuple[SampledProcess, ...]) -> tuple[int | None, int]:
        if processes and self._limits.allows():
            began = time.perf_counter()
            pids = [process.pid for process in processes]
            pid = self.root_pid if self.root_pid in pids else pids[0]
            with suppress(MeasureError):  # if it ends just now, what was read last is near enough
                self._usage = _usage_and_available(limits(pid))
            self._limits.spend(time.perf_counter() - began)
        return self._usage

    def _tree_pss(self, processes: tuple[SampledProcess, ...]) -> int | None:
        now = time.monotonic()
        resident_bytes = sum(process.resident_bytes for process in processes)
        expected = resident_bytes * _PSS_SECONDS_PER_BYTE
        expected += len(processes) * _PSS_SECONDS_PER_PROCESS
        pids = frozenset(process.pid for process in processes)
        rest = self._pss_rest_seconds if pids == self._pss_pids else _PSS_SETTLE_SECONDS
        if now - self._pss_at < rest or not self._pss.allows(expected):
            return None
        self._pss_at, self._pss_pids = now, pids
        began = time.thread_time()
        total_bytes = self.read_pss(processes)
        self._pss.spend(time.thread_time() - began)
        for process in processes:
            pss_bytes = self.pss_bytes.get(process.pid, process.resident_bytes)
            self._shared[process.pid] = max(0, process.resident_bytes - pss_bytes)
        return total_bytes

    def _used(self, processes: tuple[SampledProcess, ...]) -> int:
        """RSS less what is counted twice. A child that has just been forked shares all it has."""
        if len(processes) == 1:  # what it shares with strangers is still its own
            return processes[0].resident_bytes
        pids = {process.pid for process in processes}
        known, self._shared = self._shared, {}
        used_bytes = 0
        for process in processes:
            newcomer = process.resident_bytes if process.parent_pid in pids else 0
            shared_bytes = self._shared[process.pid] = known.get(process.pid, newcomer)
            used_bytes += max(0, process.resident_bytes - shared_bytes)
        return used_bytes


class _Followed:
    """One process. Its open file stays its own: a pid that is used again is not mistaken for it."""

    __slots__ = ("_looks", "_name", "_start_ticks", "_status_file", "command", "pid")

    def __init__(self, pid: int, *, hold: bool) -> None:
        self.pid = pid
        self.command = ""
        self._name = b""
        self._looks = 0
        self._start_ticks = proc.read_stat(pid).start_ticks
        self._status_file = proc.open_file(pid, "status") if hold else None

    def read(self) -> SampledProcess | None:
        """Its numbers now, None while it has no memory; ProcessGoneError once it is reaped."""
        status = self._status()
        if b"\nVmRSS:" not in status:
            return None
        name = status[: status.find(b"\n")]
        # it has no command line yet while it starts a program
        if self._looks < _FRESH_LOOKS or name != self._name or self.command.startswith("["):
            self._looks += 1
            self._name = name
            self.command = command_of(self.pid)
        return _parsed(self.pid, self.command, status, self._start_ticks)

    def close(self) -> None:
        if self._status_file is not None:
            self._status_file.close()
            self._status_file = None

    def _status(self) -> bytes:
        if self._status_file is None or not self._status_file.is_ours:
            if proc.read_stat(self.pid).start_ticks != self._start_ticks:
                raise MeasureError(f"process {self.pid} is another one by now", pid=self.pid)
            return proc.read_bytes(self.pid, "status")
        try:
            status = os.pread(self._status_file.fileno(), _STATUS_BYTES, 0)
            if len(status) == _STATUS_BYTES:
                status = os.pread(self._status_file.fileno(), _LONGEST_STATUS_BYTES, 0)
        except OSError as error:
            raise proc.measure_error(self.pid, error, "status") from error
        return status


def sample_event(
    sample: TreeSample,
    t: float,
    *,
    most_processes: int = MOST_LISTED,
    inherited_bytes: Mapping[int, int] | None = None,
) -> SampleEvent:
    """The sample as an event: the largest processes one by one, the sum of the others.

    `inherited_bytes`, by pid: pages that a fork shares with its parent.
    """
    largest_first = sorted(sample.processes, key=lambda process: -process.resident_bytes)
    listed = largest_first[:most_processes]
    others = largest_first[len(listed) :]
    inherited = inherited_bytes or {}
    return SampleEvent(
        t=t,
        processes={process.pid: process.memory for process in listed},
        other_processes=_sum_of(others) if others else None,
        other_inherited_bytes=sum(inherited.get(process.pid, 0) for process in others),
        tree_bytes=sample.used_bytes,
        tree_pss_bytes=sample.tree_pss_bytes,
        private_bytes={
            process.pid: sample.private_bytes[process.pid]
            for process in listed
            if inherited.get(process.pid) and process.pid in sample.private_bytes
        },
        shm_bytes=sample.shm_bytes,
        cgroup_bytes=sample.usage_bytes,
        available_bytes=sample.available_bytes,
    )


def _sum_of(processes: Iterable[SampledProcess]) -> ProcessMemory:
    rows = [astuple(process.memory) for process in processes]
    return ProcessMemory(*map(sum, zip(*rows, strict=True)))


def command_of(pid: int) -> str:
    """The command line of a process as a shell would read it; `[name]` where it has none."""
    words = [
        proc.printable(word) for word in proc.read_bytes(pid, "cmdline").rstrip(b"\0").split(b"\0")
    ]
    if words == [""]:
        return f"[{proc.read_stat(pid).comm}]"
    # a title set by the process itself ("ray::IDLE") is one argument with blanks in it
    if len(words) == 1:
        return words[0]
    return shlex.join(words)


def shared_anon_bytes(process: SampledProcess) -> int:
    """Anonymous memory that other processes map, too; all of it where that may not be read."""
    try:
        rollup = proc.read_bytes(process.pid, "smaps_rollup")
    except MeasureError:
        return process.anon_bytes
    return max(0, process.anon_bytes - _field_bytes(rollup, b"\nPrivate_Dirty:"))


def headroom(pid: int | None = None) -> Headroom | None:
    """The least that is left to a process, by default this one, under any limit that kills.

    A limit is shared by all in the group, so what the others hold is not left any more.
    Limits on virtual memory are not asked.
    """
    rooms = [
        Headroom(found.headroom_bytes, Limit(found.bytes, found.source))
        for found in limits(os.getpid() if pid is None else pid)
        if found.effect == "kill" and found.headroom_bytes is not None
    ]
    return min(rooms, key=lambda room: room.bytes, default=None)


def _usage_and_available(found: Iterable[FoundLimit]) -> tuple[int | None, int]:
    usage_bytes, available_bytes = None, 0
    for limit in found:
        if limit.scope == "cgroup" and limit.effect == "kill" and usage_bytes is None:
            usage_bytes = limit.usage_bytes
        elif limit.scope == "host" and limit.effect == "kill":
            available_bytes = limit.headroom_bytes or 0
    return usage_bytes, available_bytes


def _parsed(pid: int, command: str, status: bytes, start_ticks: int = 0) -> SampledProcess:
    if b"\nRssAnon:" in status:
        anon_bytes = _field_bytes(status, b"\nRssAnon:")
    else:  # kernels before 4.5 do not split it
        anon_bytes = _field_bytes(status, b"\nVmRSS:")
    return SampledProcess(
        pid,
        _field(status, b"\nPPid:"),
        command,
        anon_bytes,
        _field_bytes(status, b"\nRssFile:"),
        _field_bytes(status, b"\nRssShmem:"),
        _field_bytes(status, b"\nVmSwap:"),
        _field(status, b"\nThreads:"),
        start_ticks,
    )


def _field_bytes(text: bytes, name: bytes) -> int:
    return _field(text, name) * 1024


def _field(text: bytes, name: bytes) -> int:
    """The number behind a name in a file of `Name: 123 kB` lines; 0 where there is none."""
    at = text.find(name)
    if at < 0:
        return 0
    begin = at + len(name)
    end = text.find(b"\n", begin)
    return int(text[begin:end].removesuffix(b"kB"))
