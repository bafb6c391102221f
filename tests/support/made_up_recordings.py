"""Recordings made up for tests: levels by generation, phases and snapshots, nothing measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from ramledger.event_parts import ProcessMemory
from ramledger.events import (
    Event,
    GenerationEvent,
    NamesSnapshotEvent,
    PhaseEvent,
    ProcessEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.ledger import Entry, Source, Statement
from ramledger.run.model import Run

MIB = 1 << 20
PID = 7

Accounts = Mapping[str, float | tuple[float, float]]  # MiB, or (resident, reserved)


def recording(*events: Event) -> Run:
    """A run with these events in time order, as it is read from a recording."""
    run = Run(keep_events=True)
    run.take(ProcessEvent(t=0.0, pid=PID, command="train.py"))
    for event in sorted(events, key=lambda event: event.t):
        run.take(event)
    return run


def generations(levels: Sequence[float], **more: Any) -> list[GenerationEvent]:
    """One generation a second, with these levels in MiB."""
    return [
        GenerationEvent(
            **{
                "t": float(i + 1),
                "pid": PID,
                "generation": i,
                "origin": "explicit",
                "anon_bytes": round(level * MIB),
                **more,
            }
        )
        for i, level in enumerate(levels)
    ]


def phases(growth: Mapping[str, Sequence[float]], **more: Any) -> list[PhaseEvent]:
    """Growth in MiB of each phase in each generation, half a second each."""
    return [
        PhaseEvent(
            **{
                "t": float(i + 1),
                "pid": PID,
                "generation": i,
                "name": name,
                "seconds": 0.5,
                "growth_bytes": round(size * MIB),
                "before_bytes": 100 * MIB,
                "peak_bytes": 100 * MIB,
                **more,
            }
        )
        for name, sizes in growth.items()
        for i, size in enumerate(sizes)
    ]


def sample(t: float, levels: Mapping[int, float], **more: Any) -> SampleEvent:
    """A sample of anonymous memory by process, in MiB."""
    memory = {pid: ProcessMemory(round(level * MIB), threads=1) for pid, level in levels.items()}
    return SampleEvent(t=t, processes=memory, **more)


def statement(accounts: Accounts, fill: float | None = None) -> Statement:
    """A statement of these accounts, all as full as `fill` says."""
    entries = []
    for name, size in accounts.items():
        resident, reserved = size if isinstance(size, tuple) else (size, size)
        is_owned = name.startswith(("variables/", "replay"))
        source = Source.PATH if is_owned else Source.ALLOCATOR
        entries.append(Entry(name, round(resident * MIB), round(reserved * MIB), source, fill=fill))
    rss_bytes = sum(entry.resident_bytes for entry in entries)
    return Statement(PID, "train.py", 0.0, rss_bytes, tuple(entries))


def snapshot(
    generation: int, accounts: Accounts, *, fill: float | None = None, **more: Any
) -> SnapshotEvent:
    """A snapshot after a generation."""
    whole = {"t": generation + 1.1, "pid": PID, "generation": generation, **more}
    return SnapshotEvent(statement=statement(accounts, fill), **whole)


def names_snapshot(generation: int, accounts: Accounts, **more: Any) -> NamesSnapshotEvent:
    """A snapshot after a generation in which no object is counted."""
    whole = {"t": generation + 1.1, "pid": PID, "generation": generation, **more}
    return NamesSnapshotEvent(statement=statement(accounts), **whole)
