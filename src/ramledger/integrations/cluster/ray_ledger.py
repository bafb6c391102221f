"""The ledger of a Ray cluster: the last report of every process, and one recording a run.

It lives in one named actor, and knows nothing of Ray itself. Its memory and its recording stay
bounded, however many workers there are and however long they run.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ramledger.diagnose.cluster_verdicts import DRIVER
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.verdict import diagnose
from ramledger.errors import RecordingError
from ramledger.event_parts import Cluster, ObjectStore, ProcessMemory
from ramledger.events import (
    Event,
    GenerationEvent,
    Header,
    ProcessEndEvent,
    ProcessEvent,
    RunEndEvent,
    SampleEvent,
)
from ramledger.integrations.cluster.process_report import NodeLimits, ProcessReport
from ramledger.recording import RecordingWriter
from ramledger.run.model import Run
from ramledger.user_files import current_directory

ENV_RUNNER = "env runner"
_PIDS = 1 << 22  # Linux hands out smaller ones: those of the second node are moved up by as much
_MOST_ROWS = 20_000  # processes written in samples before the next ones become half as frequent
_LEAST_ITERATIONS, _MOST_ITERATIONS = 16, 128
_SETTLED_REPORTS = 3  # growth counts from here: the first ones are start-up


@dataclass(slots=True)
class _Process:
    """One process as it last reported."""

    pid: int  # unique in the recording
    name: str
    role: str
    node: str
    memory: ProcessMemory = field(default_factory=ProcessMemory)
    reports: int = 0
    settled_bytes: int = 0
    is_fresh: bool = True

    @property
    def growth_bytes(self) -> int:
        is_settled = self.reports > _SETTLED_REPORTS
        return self.memory.anon_bytes - self.settled_bytes if is_settled else 0


@dataclass(slots=True)
class _Node:
    """One node as its processes last reported."""

    number: int
    limits: NodeLimits
    used_bytes: int = 0
    store_bytes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        shown = {
            "used_bytes": self.used_bytes,
            "limit_bytes": self.limits.limit_bytes,
            "kill_bytes": self.limits.kill_bytes,
            "store_bytes": self.store_bytes,
        }
        return {name: size for name, size in shown.items() if size is not None}


@dataclass(slots=True)
class _Run:
    """One algorithm: its processes and its recording."""

    writer: RecordingWriter | None
    began: float
    processes: dict[tuple[str, int], _Process] = field(default_factory=dict)
    nodes: dict[str, _Node] = field(default_factory=dict)
    stride: int = 1
    written: int = 0  # samples at this stride
    peak_bytes: int = 0
    sampled_at: float = 0.0

    def now(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self.began, 3)

    def write(self, event: Event, *, vital: bool = False) -> None:
        if self.writer is not None:
            self.writer.write(event, vital=vital)


class ClusterLedger:
    """What the named actor runs. Every call is small and answers at once."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    def begin(self, name: str, path: str, header: Header, force: bool) -> str:
        """Open the recording of a run; the answer is what went wrong, or ''."""
        try:
            writer = RecordingWriter(path, header, force=force) if path else None
        except RecordingError as error:
            self._runs[name] = _Run(None, time.monotonic())
            return error.message
        self._runs[name] = _Run(writer, time.monotonic())
        return ""

    def note(self, name: str, report: ProcessReport) -> None:
        """One process reports; of a run that is over it is too late."""
        if name in self._runs:
            self._take(self._runs[name], report)

    def iteration(
        self,
        name: str,
        number: int,
        report: ProcessReport,
        store: Mapping[str, int] | None,
        stores: Mapping[str, Mapping[str, int]] | None = None,
    ) -> dict[str, Any]:
        """The driver ends an iteration, and gets the summary over all processes."""
        run = self._runs.get(name)
        if run is None:
            return {}
        self._take(run, report)
        for node, held in (stores or {}).items():
            if node in run.nodes:
                run.nodes[node].store_bytes = int(held["used_bytes"])
        if number % run.stride == 0:
            _write_sample(run, number, store)
        return _summary(run, store)

    def end(self, name: str) -> tuple[Diagnosis | None, int]:
        """Close the recording: the verdict, and how many other runs continue."""
        run = self._runs.pop(name, None)
        if run is None or run.writer is None:
            return None, len(self._runs)
        dropped = run.writer.dropped_events
        run.write(
            RunEndEvent(t=run.now(), peak_bytes=run.peak_bytes, dropped_events=dropped),
            vital=True,
        )
        run.writer.close()
        return diagnose(Run.read(run.writer.path)), len(self._runs)

    def _take(self, run: _Run, report: ProcessReport) -> None:
        found = run.processes.get((report.node, report.pid)) or _admit(run, report)
        found.memory = report.memory
        found.is_fresh = True
        found.reports += 1
        if found.reports == _SETTLED_REPORTS:
            found.settled_bytes = report.memory.anon_bytes
        run.nodes[report.node].used_bytes = report.node_used_bytes
        snapshot = report.snapshot
        if snapshot is not None:
            # of when it began; the last ones are of the last iteration: nothing ran since
            began = run.now() - snapshot.cost_seconds
            at = run.sampled_at if report.is_last else began
            run.write(replace(snapshot, t=at, pid=found.pid))


def _admit(run: _Run, report: ProcessReport) -> _Process:
    """A process that was not seen before; the one that it stands in for is gone."""
    for key, other in list(run.processes.items()):
        if other.name == report.name:
            del run.processes[key]
            run.write(ProcessEndEvent(t=run.now(), pid=other.pid))
    node, limits = report.node, report.limits
    if node not in run.nodes:
        run.nodes[node] = _Node(len(run.nodes), limits)
    unique = report.pid + _PIDS * run.nodes[node].number
    run.write(
        ProcessEvent(
            t=run.now(), pid=unique, command=f"ray: {report.name}", name=report.name,
            role=report.role, node=node, node_pid=report.pid,
        )
    )  # fmt: skip
    found = _Process(unique, report.name, report.role, node)
    run.processes[node, report.pid] = found
    return found


def _write_sample(run: _Run, number: int, store: Mapping[str, int] | None) -> None:
    rows = run.processes.values()
    run.peak_bytes = max(run.peak_bytes, sum(row.memory.anon_bytes for row in rows))
    t = run.sampled_at = run.now()
    for row in rows:
        if row.role == DRIVER:
            memory = row.memory
            run.write(
                GenerationEvent(
                    t=t, pid=row.pid, generation=number, rss_bytes=memory.resident_bytes,
                    anon_bytes=memory.anon_bytes, file_bytes=memory.file_bytes,
                    shmem_bytes=memory.shmem_bytes, origin="framework",
                )
            )  # fmt: skip
    run.write(
        SampleEvent(
            t=t, generation=number,
            processes={row.pid: row.memory for row in rows},
            stale_pids=tuple(row.pid for row in rows if not row.is_fresh),
            object_store=ObjectStore(**store) if store else None,
        )
    )  # fmt: skip
    for row in rows:
        row.is_fresh = False
    run.written += 1
    most = min(_MOST_ITERATIONS, max(_LEAST_ITERATIONS, _MOST_ROWS // max(1, len(rows))))
    if run.written >= (most if run.stride == 1 else most // 2):
        run.stride, run.written = run.stride * 2, 0


def _summary(run: _Run, store: Mapping[str, int] | None) -> dict[str, Any]:
    """What the driver puts into an iteration's result, in bytes."""
    rows = list(run.processes.values())
    runners = [row for row in rows if row.role == ENV_RUNNER]
    drivers = [row.memory.resident_bytes for row in rows if row.role == DRIVER]
    result: dict[str, Any] = {
        "processes": len(rows),
        "anon_bytes": sum(row.memory.anon_bytes for row in rows),
        "driver_rss_bytes": drivers[0] if drivers else 0,
        "learners_rss_bytes": sum(r.memory.resident_bytes for r in rows if r.role == "learner"),
        "nodes": {name: node.to_dict() for name, node in run.nodes.items()},
    }
    if runners:
        sizes = [row.memory.resident_bytes for row in runners]
        fastest = max(runners, key=lambda row: row.growth_bytes)
        result["env_runners"] = {
            "rss_mean_bytes": sum(sizes) // len(sizes),
            "rss_max_bytes": max(sizes),
            "growth_max_bytes": fastest.growth_bytes,
            "growth_max_name": fastest.name,
        }
    if store:
        result["object_store"] = dict(store)
    return result


def cluster_header(command: list[str], run: str) -> Header:
    """The first line of a cluster's recording."""
    return Header(
        started_at=time.time(),
        command=tuple(command),
        directory=current_directory(),
        cluster=Cluster(kind="ray", run=run),
    )
