"""The statement of this very process: a reading, and what its objects are."""

import os
import traceback
from dataclasses import replace
from typing import Any

from ramledger.interpreter.type_facts import short
from ramledger.ledger import Statement
from ramledger.measure.allocators.malloc import arena_statistics
from ramledger.measure.gpu import torch_cuda
from ramledger.objects.claims import CLAIMS
from ramledger.objects.process_objects import (
    ProcessObjects,
    read_named_objects,
    read_process_objects,
)
from ramledger.objects.walk_roots import Root
from ramledger.statement.outside import assemble, notes_from_outside, statement_from_outside
from ramledger.statement.process_measurement import Measurement, measure_process
from ramledger.statement.reconcile import reconcile_inside

LARGE_OBJECT_BYTES = 10 * 1000 * 1000
TOP_LARGE_OBJECTS = 20
TOP_CONTAINERS = 20


def own_statement(
    *,
    label: str = "",
    objects: bool = True,
    large_object_bytes: int = LARGE_OBJECT_BYTES,
    top: int = TOP_LARGE_OBJECTS,
) -> Statement:
    """The ledger of this very process. `objects=False` skips the census of all objects."""
    # the reading comes first, so that the census' own lists are in no account
    reading = measure_process(os.getpid())
    try:
        view = read_process_objects(CLAIMS, objects=objects)
    except Exception as error:  # a snapshot is not worth a training
        statement = statement_from_outside(reading, label)
        return replace(statement, notes=(*statement.notes, why_failed(error)))
    return statement_of(reading, view, label, large_object_bytes, top)


def why_failed(error: Exception) -> str:
    """One sentence for a snapshot that could not be taken."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return f"the objects of this process could not be read: {short(text)}"


def quick_statement(*roots: Root) -> tuple[Statement, ProcessObjects]:
    """The ledger of this very process, from what names and `roots` lead to alone; and that."""
    reading = measure_process(os.getpid())
    view = read_named_objects(CLAIMS, *roots)
    return statement_of(reading, view), view


def statement_of(
    reading: Measurement,
    view: ProcessObjects,
    label: str = "",
    large_object_bytes: int = LARGE_OBJECT_BYTES,
    top: int = TOP_LARGE_OBJECTS,
) -> Statement:
    """The statement of this process from a reading and a look inside, in this order."""
    found = reconcile_inside(reading, view, large_object_bytes, top)
    return assemble(
        reading,
        found,
        label,
        inside=True,
        types=view.types,
        inside_facts=_inside_facts(reading, view),
        notes=_notes(reading, view),
    )


def _inside_facts(reading: Measurement, view: ProcessObjects) -> dict[str, Any]:
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
                for a in sorted(arena_statistics(), key=lambda a: -a.free_bytes)[:5]
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


def _notes(reading: Measurement, view: ProcessObjects) -> list[str]:
    notes = notes_from_outside(reading, unknown_allocator=reading.heap is None)
    if not view.complete:
        notes.append("the object graph is very large: owners were followed only in part")
    if view.unread:
        notes.append(f"{view.unread:,} objects could not be read")
    if view.why_not_counted:
        notes.append(view.why_not_counted)
    if view.imports is None:
        notes.append("imports were not watched from the start: their share is in native/in use")
    return notes
