"""Statements: a reading and its reconciliation, put together."""

import os
import traceback
from dataclasses import replace
from typing import Any

from ramledger.account.reading import Reading, read_process
from ramledger.account.reconcile import Reconciliation, reconcile_inside, reconcile_outside
from ramledger.inside.claims import CLAIMS
from ramledger.inside.roots import Root
from ramledger.inside.typenames import short
from ramledger.inside.view import InsideView, look_along_names, look_inside
from ramledger.ledger import Statement
from ramledger.measure.gpu import gpu_use, torch_cuda
from ramledger.measure.malloc import arena_books
from ramledger.measure.pressure import memory_pressure
from ramledger.units import MIB

LARGE_OBJECT_BYTES = 10 * 1000 * 1000
TOP_LARGE_OBJECTS = 20
TOP_CONTAINERS = 20


def outside_statement(pid: int, label: str = "") -> Statement:
    """The ledger of any process this user may read, from its mappings alone."""
    reading = read_process(pid)
    return _statement(reading, reconcile_outside(reading), None, label)


def own_statement(
    *,
    label: str = "",
    objects: bool = True,
    large_object_bytes: int = LARGE_OBJECT_BYTES,
    top: int = TOP_LARGE_OBJECTS,
) -> Statement:
    """The ledger of this very process. `objects=False` skips the census of all objects."""
    # the reading comes first, so that the census' own lists are in no account
    reading = read_process(os.getpid())
    try:
        view = look_inside(CLAIMS, objects=objects)
    except Exception as error:  # a snapshot is not worth a training
        statement = _statement(reading, reconcile_outside(reading), None, label)
        return replace(statement, notes=(*statement.notes, why_failed(error)))
    return statement_of(reading, view, label, large_object_bytes, top)


def why_failed(error: Exception) -> str:
    """One sentence for a snapshot that could not be taken."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return f"the objects of this process could not be read: {short(text)}"


def quick_statement(*roots: Root) -> tuple[Statement, InsideView]:
    """The ledger of this very process, from what names and `roots` lead to alone; and that."""
    reading = read_process(os.getpid())
    view = look_along_names(CLAIMS, *roots)
    return statement_of(reading, view), view


def statement_of(
    reading: Reading,
    view: InsideView,
    label: str = "",
    large_object_bytes: int = LARGE_OBJECT_BYTES,
    top: int = TOP_LARGE_OBJECTS,
) -> Statement:
    """The statement of this process from a reading and a look inside, in this order."""
    found = reconcile_inside(reading, view, large_object_bytes, top)
    return _statement(reading, found, view, label)


def _statement(
    reading: Reading, found: Reconciliation, view: InsideView | None, label: str
) -> Statement:
    totals = reading.totals
    return Statement(
        pid=reading.process.pid,
        command=reading.process.command,
        at=reading.at,
        label=label,
        inside=view is not None,
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
        types=view.types if view else (),
        facts=_facts(reading, view),
        notes=tuple(_notes(reading, view)),
    )


def _facts(reading: Reading, view: InsideView | None) -> dict[str, Any]:
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
    if view is not None:
        facts |= _inside_facts(reading, view)
    return facts


def _inside_facts(reading: Reading, view: InsideView) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "tracked_objects": view.tracked_objects,
        "tensors_with_graph": view.graph_tensors,
        "containers": [
            {"path": c.path, "type": c.type, "length": c.length, "of": c.element_type,
             "bytes": c.bytes, "account": c.account, "capacity": c.capacity}
            for c in sorted(view.containers, key=lambda c: -c.bytes)[:TOP_CONTAINERS]
        ],
    }  # fmt: skip
    if view.tensorflow is not None:
        facts["tensorflow"] = view.tensorflow
    if reading.heap is not None:
        heap = reading.heap
        facts["malloc"] = {
            "arenas": heap.arenas,
            "in_use_bytes": heap.in_use_bytes,
            "free_bytes": heap.free_bytes,
            "mmapped_bytes": heap.mmapped_bytes,
            "top_bytes": heap.top_bytes,
            "largest_arenas": [
                {"index": a.index, "in_use_bytes": a.in_use_bytes, "free_bytes": a.free_bytes}
                for a in sorted(arena_books(), key=lambda a: -a.free_bytes)[:5]
            ],
        }
    if reading.python is not None:
        facts["pymalloc"] = {
            "arena_bytes": reading.python.arena_bytes,
            "used_bytes": reading.python.used_bytes,
            "blocks": reading.python.blocks,
        }
    cuda = torch_cuda()
    if cuda:
        facts["torch_cuda"] = cuda
    return facts


def _notes(reading: Reading, view: InsideView | None) -> list[str]:
    notes = []
    if reading.allocator.unknown and (view is None or reading.heap is None):
        notes.append(reading.allocator.unknown)
    if reading.process.bits == 32:
        notes.append("a 32-bit process: thread arenas are not told apart from other mappings")
    if view is not None and not view.complete:
        notes.append("the object graph is very large: owners were followed only in part")
    if view is not None and view.unread:
        notes.append(f"{view.unread:,} objects could not be read")
    if view is not None and view.why_not_counted:
        notes.append(view.why_not_counted)
    if view is not None and view.imports is None:
        notes.append("imports were not watched from the start: their share is in native/in use")
    if not reading.mappings:
        notes.append(f"no memory of its own: {reading.process.kind}")
    if reading.totals.swap_bytes > MIB:
        notes.append("part of this process is swapped out and not in RSS")
    return notes
