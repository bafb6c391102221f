"""Finds all live arrays, through the objects that refer to them.

The garbage collector does not track numpy's arrays, bytes, or tuples and dictionaries that hold
nothing else. So the referents of all tracked objects are searched: by the compiled walk, which
describes the large ones, or here.
"""

import gc
from itertools import chain
from typing import Any, Protocol

from ramledger.interpreter.array_storage import (
    LARGE_BYTES,
    Storage,
    array_kind,
    described_storage,
    numpy_array,
    numpy_getters,
    storage_of,
    torch_tensor,
    untracked_array_types,
)
from ramledger.interpreter.attributes import container_length, slices
from ramledger.interpreter.object_sizes import HAS_GC
from ramledger.interpreter.tally import Tally
from ramledger.interpreter.tracked_objects import ArrayFacts
from ramledger.interpreter.type_facts import flags_of

MAX_LARGE = 20_000
_LONG = 1_000  # elements of a container from which on it is read in parts


class Arrays(Protocol):
    """The result of the search."""

    array_counts: Tally[int]  # by id of the type, as the next two
    array_bytes: Tally[int]
    array_kinds: dict[int, type]
    large: dict[int, Storage]  # by address


class ArraySearch:
    """Counts every array once, and describes those that are large or views."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._untracked = {
            key: kind
            for key, kind in untracked_array_types(()).items()
            if not flags_of(kind) & HAS_GC
        }
        self._seen: set[int] = set()

    def facts(self) -> ArrayFacts:
        """What the compiled walk looks for; it knows bytes by itself."""
        ndarray = numpy_array()
        others = [kind for kind in self._untracked.values() if array_kind(kind) not in _KNOWN]
        getters = numpy_getters(ndarray) if ndarray is not None else ()
        return ArrayFacts(ndarray, getters, tuple(others), torch_tensor(), LARGE_BYTES, MAX_LARGE)

    def take_described(self, rows: list[tuple[Any, ...]]) -> None:
        """Take numpy's arrays, which are counted already, by their type and what getters say."""
        for kind, size, base, interface, shape, dtype in rows:
            if interface is not None:
                self._keep(described_storage(kind, size, base, interface, shape, dtype))

    def take_others(self, arrays: list[Any]) -> None:
        """Take large bytes, which are counted already, and count arrays of other libraries."""
        for array in arrays:
            storage = storage_of(array)
            if array_kind(type(array)) != "bytes":
                self.count(type(array), storage.reserved_bytes if storage is not None else 0)
            if storage is not None and storage.reserved_bytes >= LARGE_BYTES:
                self._keep(storage)

    def count(self, kind: type, size: int) -> None:
        """Add one array to its type's."""
        found, key = self._arrays, id(kind)
        found.array_kinds[key] = kind
        found.array_counts[key] += 1
        found.array_bytes[key] += size

    def _keep(self, storage: Storage) -> None:
        if storage.address and len(self._arrays.large) < MAX_LARGE:
            self._arrays.large.setdefault(storage.address, storage)

    def take_holders(self, holders: list[Any]) -> None:
        """Count the arrays among objects, and among what they refer to, without the part in C."""
        for obj in holders:
            if array_kind(type(obj)) == "numpy":
                self._take_array(obj)
        pending = [obj for obj in holders if (container_length(obj) or 0) >= _LONG]
        long = set(map(id, pending))
        found = gc.get_referents(
            *(o for o in holders if id(o) not in long and array_kind(type(o)) != "torch")
        )
        pending += self._sorted(found)
        while pending:  # ends: each is searched once
            obj = pending.pop()
            parts = [*slices(obj, _LONG)] if type(obj) is not dict else _parts_of_dict(obj)
            for part in parts:
                pending += self._sorted(part)

    def _sorted(self, found: list[Any]) -> list[Any]:
        """Count the arrays among referents; return containers that lead to others."""
        wanted = self._untracked.keys() | _HIDING
        hiding = []
        for obj in [one for one in found if id(type(one)) in wanted]:
            if id(obj) in self._seen:
                continue
            self._seen.add(id(obj))
            if id(type(obj)) not in _HIDING:
                self._take_array(obj)
            elif type(obj) is tuple or not gc.is_tracked(obj):  # tracked tuples are not held
                hiding.append(obj)
        return hiding

    def _take_array(self, array: Any) -> None:
        kind = array_kind(type(array))
        if kind == "numpy":
            # through ndarray's own descriptors: a subclass may have overridden them
            ndarray: Any = numpy_array()
            size, is_view = ndarray.nbytes.__get__(array), ndarray.base.__get__(array) is not None
            self.count(type(array), 0 if is_view else size)
        elif kind == "bytes":
            size, is_view = len(array), False
            self.count(type(array), size)
        else:
            self.take_others([array])
            return
        storage = storage_of(array) if is_view or size >= LARGE_BYTES else None
        if storage is not None:
            self._keep(storage)


_KNOWN = ("numpy", "bytes")
_HIDING = {id(dict), id(tuple)}  # gc stops tracking these when they hold only atoms and arrays


def _parts_of_dict(mapping: dict[Any, Any]) -> list[list[Any]]:
    return [*chain(slices(mapping, _LONG), slices(mapping, _LONG, keys=True))]
