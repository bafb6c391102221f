"""The statement of any process, from its mappings alone; and what every statement is made of."""

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
    """The ledger of any process this user may read, from its mappings alone."""
    return statement_from_outside(measure_process(pid), label)


def statement_from_outside(reading: Measurement, label: str = "") -> Statement:
    """The statement of a reading, without a look inside."""
    notes = notes_from_outside(reading, unknown_allocator=True)
    return assemble(reading, reconcile_outside(reading), label, notes=notes)


def assemble(
    reading: Measurement,
    found: Reconciliation,
    label: str,
    *,
    inside: bool = False,
    types: tuple[TypeCount, ...] = (),
    inside_facts: dict[str, Any] | None = None,
    notes: list[str],
) -> Statement:
    """A reading and its reconciliation, put together."""
    totals = reading.totals
    return Statement(
        pid=reading.process.pid,
        command=reading.process.command,
        at=reading.at,
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
        threads=reading.process.threads,
        uptime_seconds=round(reading.process.uptime_seconds, 3),
        limit=reading.limit,
        entries=found.entries,
        large_objects=found.large_objects,
        types=types,
        facts={**facts_from_outside(reading), **(inside_facts or {})},
        notes=tuple(notes),
    )


def facts_from_outside(reading: Measurement) -> dict[str, Any]:
    """What is known of a process beside its accounts."""
    facts: dict[str, Any] = {
        "kind": str(reading.process.kind),
        "allocator": reading.allocator.name,
        "settings": dict(reading.settings),
        "thread_stacks": {
            "count": reading.stacks.count,
            "reserved_bytes": reading.stacks.reserved_bytes,
            "resident_bytes": reading.stacks.resident_bytes,
        },
        "thread_arenas": len(reading.arena_heaps),
        "huge_page_bytes": reading.totals.huge_bytes,
    }
    pressure = memory_pressure()
    if pressure is not None:
        facts["memory_pressure"] = {
            "some_avg10": pressure.some_avg10,
            "full_avg10": pressure.full_avg10,
        }
    gpus = gpu_use(reading.process.pid)
    if gpus:
        facts["gpu"] = [
            {"device": g.device, "used_bytes": g.used_bytes, "total_bytes": g.total_bytes}
            for g in gpus
        ]
    return facts


def notes_from_outside(reading: Measurement, *, unknown_allocator: bool) -> list[str]:
    """What a reader of the statement should know; whether an unknown allocator matters."""
    notes = []
    if reading.allocator.unknown and unknown_allocator:
        notes.append(reading.allocator.unknown)
    if reading.process.bits == 32:
        notes.append("a 32-bit process: thread arenas are not told apart from other mappings")
    if not reading.mappings:
        notes.append(f"no memory of its own: {reading.process.kind}")
    if reading.totals.swap_bytes > MIB:
        notes.append("part of this process is swapped out and not in RSS")
    return notes


def bounded(statement: Statement) -> Statement:
    """With the largest accounts, and the rest as one: the sum stays what it was."""
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
