"""The statement of any process, from its mappings only; and how a statement is put together."""

from dataclasses import replace
from typing import Any

from ramledger.ledger import Entry, Statement, TypeCount
from ramledger.measure.gpu import gpu_use
from ramledger.measure.pressure_stalls import memory_pressure
from ramledger.statement.process_measurement import Measurement, measure_process
from ramledger.statement.reconcile import Reconciliation, reconcile_outside
from ramledger.units import MIB

MAX_ACCOUNTS = 40  # of a statement in a recording


def outside_statement(pid: int, label: str = "") -> Statement:
    """The statement of any process that this user may read, from its mappings only."""
    return statement_from_outside(measure_process(pid), label)


def statement_from_outside(measurement: Measurement, label: str = "") -> Statement:
    """The statement of a measurement, without the objects of the process."""
    notes = notes_from_outside(measurement, unknown_allocator=True)
    return assemble(measurement, reconcile_outside(measurement), label, notes=notes)


def assemble(
    measurement: Measurement,
    found: Reconciliation,
    label: str,
    *,
    inside: bool = False,
    types: tuple[TypeCount, ...] = (),
    inside_facts: dict[str, Any] | None = None,
    notes: list[str],
) -> Statement:
    """Put a measurement and its reconciliation together."""
    totals = measurement.totals
    return Statement(
        pid=measurement.process.pid,
        command=measurement.process.command,
        at=measurement.at,
        label=label,
        inside=inside,
        rss_bytes=totals.rss_bytes,
        pss_bytes=totals.pss_bytes,
        uss_bytes=totals.uss_bytes,
        vms_bytes=totals.size_bytes,
        swap_bytes=totals.swap_bytes,
        anon_bytes=totals.anon_bytes,
        file_bytes=totals.file_bytes,
        shmem_bytes=totals.shmem_bytes,
        threads=measurement.process.threads,
        uptime_seconds=round(measurement.process.uptime_seconds, 3),
        limit=measurement.limit,
        entries=found.entries,
        large_objects=found.large_objects,
        types=types,
        facts={**facts_from_outside(measurement), **(inside_facts or {})},
        notes=tuple(notes),
    )


def facts_from_outside(measurement: Measurement) -> dict[str, Any]:
    """What is known of a process besides its accounts."""
    facts: dict[str, Any] = {
        "kind": str(measurement.process.kind),
        "allocator": measurement.allocator.name,
        "settings": dict(measurement.settings),
        "thread_stacks": {
            "count": measurement.stacks.count,
            "reserved_bytes": measurement.stacks.reserved_bytes,
            "resident_bytes": measurement.stacks.resident_bytes,
        },
        "thread_arenas": len(measurement.arena_heaps),
        "huge_page_bytes": measurement.totals.huge_bytes,
    }
    pressure = memory_pressure()
    if pressure is not None:
        facts["memory_pressure"] = {
            "some_avg10": pressure.some_avg10,
            "full_avg10": pressure.full_avg10,
        }
    gpus = gpu_use(measurement.process.pid)
    if gpus:
        facts["gpu"] = [
            {"device": g.device, "used_bytes": g.used_bytes, "total_bytes": g.total_bytes}
            for g in gpus
        ]
    return facts


def notes_from_outside(measurement: Measurement, *, unknown_allocator: bool) -> list[str]:
    """Notes for the reader of a statement; `unknown_allocator`: say what that hides."""
    notes = []
    if measurement.allocator.unknown and unknown_allocator:
        notes.append(measurement.allocator.unknown)
    if measurement.process.bits == 32:
        notes.append("a 32-bit process: thread arenas cannot be distinguished from other mappings")
    if not measurement.mappings:
        notes.append(f"no memory of its own: {measurement.process.kind}")
    if measurement.totals.swap_bytes > MIB:
        notes.append("part of this process is swapped out and not in RSS")
    return notes


def bounded(statement: Statement) -> Statement:
    """With the largest accounts, and all others as one: the sum stays the same."""
    kept, rest = statement.entries[:MAX_ACCOUNTS], statement.entries[MAX_ACCOUNTS:]
    if not rest:
        return statement
    other = Entry(
        "other accounts",
        sum(entry.resident_bytes for entry in rest),
        sum(entry.reserved_bytes for entry in rest),
        rest[0].source,
        note=f"{len(rest)} accounts",
    )
    return replace(statement, entries=(*kept, other))
