"""Runs on a cluster: every process that has a role is judged by itself.

Summed up, one worker's leak would hide among the others' noise; judged one by one it has a name.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ramledger.diagnose.finding import Culprit, Diagnosis, Finding, Verdict
from ramledger.event_parts import ProcessMemory
from ramledger.events import (
    AllocatorsEvent,
    Event,
    FunctionGrowthEvent,
    GenerationEvent,
    NamesSnapshotEvent,
    PhaseEvent,
    ProcessEndEvent,
    ProcessEvent,
    ProgramEndEvent,
    ReleaseProbeEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.run.timeline import Events, Kind, OwnEvent

DRIVER = "driver"
OBJECT_STORE = "object store"
_STORE_PID = 0
_MOST_NAMED = 3
MOST_WORKERS = 1000  # that are judged, one by one
# what a process says of itself; its generations are the cluster's, and samples have these
_OWN_KINDS: tuple[type[OwnEvent], ...] = (
    AllocatorsEvent,
    FunctionGrowthEvent,
    NamesSnapshotEvent,
    PhaseEvent,
    ProgramEndEvent,
    ReleaseProbeEvent,
    SnapshotEvent,
)


@dataclass(frozen=True, slots=True)
class Worker:
    """One process of a cluster, or its object store."""

    name: str
    pid: int
    node: str
    is_over: bool = False

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid} on {self.node})" if self.pid else self.name


class WorkerEvents:
    """The events of one process of a cluster."""

    def __init__(self) -> None:
        self._by_type: dict[type[Event], list[Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_type)

    def add(self, event: Event) -> None:
        self._by_type.setdefault(type(event), []).append(event)

    def of_type(self, kind: type[Kind]) -> Iterator[Kind]:
        return iter(self._by_type.get(kind, ()))


def by_worker(run: Events) -> list[tuple[Worker, WorkerEvents]]:
    """The events of each process with a role, the driver first; [] without roles."""
    known = _processes_with_roles(run)
    if not known:
        return []
    order = sorted(known, key=lambda pid: known[pid].role != DRIVER)
    over = {event.pid for event in run.of_type(ProcessEndEvent)}
    found = {pid: WorkerEvents() for pid in (*order[:MOST_WORKERS], _STORE_PID)}
    for sample in run.of_type(SampleEvent):
        for pid, event in _of_sample(sample, found):
            found[pid].add(event)
    for kind in _OWN_KINDS:
        for own in run.of_type(kind):
            if own.pid in found:
                found[own.pid].add(own)
    store = found.pop(_STORE_PID)
    workers = [(_worker(known[pid], pid in over), events) for pid, events in found.items()]
    return [*workers, (Worker(OBJECT_STORE, 0, ""), store)] if store else workers


def _processes_with_roles(run: Events) -> dict[int, ProcessEvent]:
    found = run.of_type(ProcessEvent)
    return {event.pid: event for event in found if event.role and event.pid != _STORE_PID}


def _worker(event: ProcessEvent, is_over: bool) -> Worker:
    return Worker(event.name or event.role, event.node_pid or event.pid, event.node, is_over)


def _of_sample(sample: SampleEvent, wanted: Container[int]) -> Iterator[tuple[int, Event]]:
    """What a sample says of each process: a level, and the end of an iteration where it is one."""
    levels, stale = dict(sample.processes), set(sample.stale_pids)
    if sample.object_store is not None:
        levels[_STORE_PID] = ProcessMemory(anon_bytes=sample.object_store.used_bytes)
    for pid, memory in levels.items():
        if pid in stale or pid not in wanted:
            continue
        yield pid, SampleEvent(t=sample.t, processes={pid: memory})
        if sample.generation is not None:
            yield (
                pid,
                GenerationEvent(
                    t=sample.t,
                    pid=pid,
                    generation=sample.generation,
                    anon_bytes=memory.anon_bytes,
                    file_bytes=memory.file_bytes,
                    origin="framework",
                ),
            )


def together(run: Events, parts: Sequence[tuple[Worker, Diagnosis]]) -> Diagnosis:
    """One verdict: a leak anywhere is a leak, and is named."""
    leaks = [_named(worker, leak) for worker, found in parts for leak in found.leaks]
    leaks.sort(key=lambda leak: -leak.bytes_per_generation)
    unsure = [w for w, d in parts if d.verdict is Verdict.UNDECIDED and not w.is_over and w.pid]
    driver = parts[0][1]
    others = [finding for finding in driver.findings if finding not in driver.leaks]
    verdict, reason = Verdict.HEALTHY, f"none of {_count(parts)} leaks: {driver.reason}"
    if leaks:
        verdict, reason = Verdict.LEAK, leaks[0].summary
    elif unsure:
        verdict, reason = Verdict.UNDECIDED, _undecided(unsure, parts)
    facts: Mapping[str, Any] = {
        **driver.facts,
        "workers": [
            {"name": w.name, "pid": w.pid, "node": w.node, "verdict": str(d.verdict),
             "reason": d.reason}
            for w, d in parts
        ],
    }  # fmt: skip
    generations = max(found.generations for _, found in parts)
    return Diagnosis(verdict, reason, generations, (*leaks, *others), _notes(run), facts)


def _notes(run: Events) -> tuple[str, ...]:
    count = len(_processes_with_roles(run))
    left_out = f"only the first {MOST_WORKERS:,} of {count:,} processes were judged"
    return (left_out,) if count > MOST_WORKERS else ()


def _named(worker: Worker, leak: Finding) -> Finding:
    summary = f"leak: {worker}: {leak.summary.removeprefix('leak: ')}"
    if not worker.pid:
        advice = (
            "something keeps references to objects in the store: `ray memory` lists them; copy "
            "arrays that are kept (`array.copy()`), since a view pins its whole object"
        )
        return replace(leak, summary=summary, culprit=Culprit(OBJECT_STORE, ""), advice=advice)
    how = f"`ramledger explain {worker.pid} --inside` on {worker.node} looks into it while it runs"
    return replace(
        leak,
        summary=summary,
        advice="; ".join(filter(None, [leak.advice, how])),
    )


def _count(parts: Sequence[tuple[Worker, Diagnosis]]) -> str:
    processes = sum(worker.pid > 0 for worker, _ in parts)
    return f"{processes} processes" if processes > 1 else "1 process"


def _undecided(unsure: Sequence[Worker], parts: Sequence[tuple[Worker, Diagnosis]]) -> str:
    named = ", ".join(worker.name for worker in unsure[:_MOST_NAMED])
    more = f" and {len(unsure) - _MOST_NAMED} more" if len(unsure) > _MOST_NAMED else ""
    reason = next(found.reason for worker, found in parts if worker is unsure[0])
    return f"{named}{more}: {reason}"
