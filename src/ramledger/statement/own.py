"""The statement of this process: a measurement, and what its objects own."""

import os
import traceback
from dataclasses import replace
from typing import Any

from ramledger.interpreter.type_facts import short
from ramledger.ledger import Statement
from ramledger.measure.allocators.malloc import arena_statistics
from ramledger.measure.gpu import torch_cuda
from ramledger.objects.claims import CLAIMS
from ramledger.objects.names.walk_roots import Root
from ramledger.objects.process_objects import (
    ProcessObjects,
    read_named_objects,
    read_process_objects,
)
from ramledger.statement.calibrated import NOT_WATCHED
from ramledger.statement.outside import assemble, notes_from_outside, statement_from_outside
from ramledger.statement.process_measurement import Measurement, measure_process
from ramledger.statement.reconcile import reconcile_inside
from ramledger.statement.unowned import unowned_note
from ramledger.type_ranks import type_rank

LARGE_OBJECT_BYTES = 10 * 1000 * 1000
TOP_LARGE_OBJECTS = 20
TOP_CONTAINERS = 20
TOP_USER_CLASSES = 200


def own_statement(
    *,
    label: str = "",
    objects: bool = True,
    large_object_bytes: int = LARGE_OBJECT_BYTES,
    top: int = TOP_LARGE_OBJECTS,
) -> Statement:
    """The statement of this process. `objects=False` skips counting all live objects."""
    # measured first, so that the lists we make for counting are in no account
    measurement = measure_process(os.getpid())
    try:
        found = read_process_objects(CLAIMS, objects=objects)
    except Exception as error:  # a failed snapshot must not end the training
        statement = statement_from_outside(measurement, label)
        return replace(statement, notes=(*statement.notes, why_failed(error)))
    statement = statement_of(measurement, found, label, large_object_bytes, top)
    if note := unowned_note(measurement, found):
        statement = replace(statement, notes=(*statement.notes, note))
    return _users_first(statement, found.user_classes)


def _users_first(statement: Statement, user_classes: list[str]) -> Statement:
    """With types in the order of a table: what the user wrote and knows before all others."""
    users = set(user_classes)
    types = sorted(
        statement.types, key=lambda row: (type_rank(row.type, users), -row.bytes, row.type)
    )
    facts = {**statement.facts, "user_classes": user_classes[:TOP_USER_CLASSES]}
    return replace(statement, types=tuple(types), facts=facts)


def why_failed(error: Exception) -> str:
    """One sentence that says why a snapshot failed."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return f"the objects of this process could not be read: {short(text)}"


def quick_statement(*roots: Root) -> tuple[Statement, ProcessObjects]:
    """The statement of this process, and its objects, as far as variables and `roots` lead."""
    measurement = measure_process(os.getpid())
    objects = read_named_objects(CLAIMS, *roots)
    return statement_of(measurement, objects), objects


def statement_of(
    measurement: Measurement,
    objects: ProcessObjects,
    label: str = "",
    large_object_bytes: int = LARGE_OBJECT_BYTES,
    top: int = TOP_LARGE_OBJECTS,
) -> Statement:
    """The statement of this process; the measurement must be older than the objects."""
    found = reconcile_inside(measurement, objects, large_object_bytes, top)
    return assemble(
        measurement,
        found,
        label,
        inside=True,
        types=objects.types,
        inside_facts=_inside_facts(measurement, objects),
        notes=_notes(measurement, objects),
    )


def _inside_facts(measurement: Measurement, objects: ProcessObjects) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "tracked_objects": objects.tracked_objects,
        "tensors_with_graph": objects.graph_tensors,
        "containers": [
            {"path": c.path, "type": c.type, "length": c.length, "of": c.element_type,
             "bytes": c.bytes, "account": c.account, "capacity": c.capacity}
            for c in sorted(objects.containers, key=lambda c: -c.bytes)[:TOP_CONTAINERS]
        ],
    }  # fmt: skip
    if objects.replays:
        facts["replays"] = [one.to_dict() for one in objects.replays]
    if objects.tensorflow is not None:
        facts["tensorflow"] = objects.tensorflow
    if measurement.heap is not None:
        heap = measurement.heap
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
    if measurement.python is not None:
        facts["pymalloc"] = {
            "arena_bytes": measurement.python.arena_bytes,
            "used_bytes": measurement.python.used_bytes,
            "blocks": measurement.python.blocks,
        }
    cuda = torch_cuda()
    if cuda:
        facts["torch_cuda"] = cuda
    return facts


def _notes(measurement: Measurement, objects: ProcessObjects) -> list[str]:
    notes = notes_from_outside(measurement, unknown_allocator=measurement.heap is None)
    if not objects.complete:
        notes.append("the object graph is very large: owners were followed only in part")
    if objects.unread:
        notes.append(f"{objects.unread:,} objects could not be read")
    if objects.why_not_counted:
        notes.append(objects.why_not_counted)
    if objects.imports is None:
        notes.append(NOT_WATCHED)
    return notes
