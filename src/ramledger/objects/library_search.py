"""Finds the globals of libraries that hold arrays to which no variable of the user leads."""

from collections.abc import Iterable
from typing import Any

from ramledger.interpreter.array_storage import array_kind, storage_of
from ramledger.interpreter.attributes import (
    children,
    container_kind,
    instance_dict,
    is_class,
    is_opaque,
)
from ramledger.ledger import Source
from ramledger.objects.names.paths import Path
from ramledger.objects.names.walk_roots import Root
from ramledger.objects.walk import MAX_NODES, ObjectWalk
from ramledger.objects.walk_queue import Place

_DEPTH = 3


def find_in_libraries(walk: ObjectWalk, roots: Iterable[Root], addresses: set[int]) -> None:
    """Book the blocks at `addresses` that globals of libraries hold, three levels deep."""
    level = [
        (walk.paths.root(root.name), root.value)
        for root in roots
        if not is_opaque(type(root.value))
    ]
    for _ in range(_DEPTH):
        below: list[tuple[Path, Any]] = []
        for path, value in level:
            if len(below) > MAX_NODES or not walk.see(value):
                continue
            if array_kind(type(value)):
                _book_wanted(walk, path, value, addresses)
            elif container_kind(type(value)) or instance_dict(value):
                below += [
                    (path.step(label), child)
                    for label, child in children(value)
                    if not is_opaque(type(child)) and not is_class(child)
                ]
        level = below
        if not addresses or walk.is_over():
            return


def _book_wanted(walk: ObjectWalk, path: Path, array: Any, addresses: set[int]) -> None:
    storage = storage_of(array)
    if storage is not None and storage.address in addresses:
        addresses.discard(storage.address)
        walk.book_array(array, Place(path, path.account, Source.PATH))
