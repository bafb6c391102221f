"""Finds all live arrays, through the objects that refer to them.

The garbage collector does not track numpy's arrays, bytes, or tuples and dictionaries that hold
nothing else. So the referents of all tracked objects are searched.
"""

import gc
import sys
from collections import Counter
from itertools import compress, repeat
from operator import is_not
from typing import Any, Protocol

from ramledger.interpreter import tracked_objects
from ramledger.interpreter.array_storage import (
    LARGE_BYTES,
    Storage,
    array_kind,
    described_storage,
    numpy_array,
    numpy_getters,
    storage_of,
    untracked_array_types,
)
from ramledger.interpreter.attributes import container_kind
from ramledger.interpreter.object_sizes import HAS_GC, even_bytes
from ramledger.interpreter.type_facts import flags_of, once_a_type
from ramledger.objects.long_containers import REFERENTS, holders, quick_bytes

CHUNK = 1_000  # objects searched at a time: they should stay in the processor's cache
MAX_LARGE = 20_000
MAX_SHARED = 100_000
# References to an array during the search, for each of its holders: the holder itself and the
# lists `found` and `arrays`. getrefcount's own argument is one more.
_REFERENCES = 3
_ONE_HOLDER = 3  # references to a tuple: the holder, the list `tuples`, getrefcount's argument
_LENGTHY = frozenset(map(id, (list, dict, tuple, set, frozenset)))
_HIDING = {id(dict), id(tuple)}  # gc stops tracking these when they hold only atoms and arrays


class Arrays(Protocol):
    """The result of the search."""

    array_counts: Counter[int]
    array_bytes: Counter[int]
    array_kinds: dict[int, type]
    large: dict[int, Storage]  # by address


class ArraySearch:
    """Counts every array once, at a few tens of nanoseconds per object."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._kinds = untracked_array_types(())
        self._untracked = {k: t for k, t in self._kinds.items() if not flags_of(t) & HAS_GC}
        self._seen: set[int] = set()
        self._seen_tuples: set[int] = set()

    def take(self, chunk: list[Any]) -> None:
        """Search some of the tracked objects, and what they refer to."""
        identities = list(map(id, map(type, chunk)))
        needs_care = False
        for key, obj in dict(zip(identities, chunk, strict=True)).items():
            needs_care |= _needs_care(type(obj))
            if array_kind(type(obj)) not in ("", "torch"):
                self._kinds[key] = type(obj)
                self._count(key, [one for one in chunk if type(one) is type(obj)])
        lengths = map(len, compress(chunk, map(_LENGTHY.__contains__, identities)))
        is_short = not needs_care and sum(lengths) <= REFERENTS
        for some, spare in [(chunk, 0)] if is_short else holders(chunk):
            self.count_below(some, spare)

    def count_below(self, found: list[Any], spare: int = 0) -> None:
        """Count arrays that objects refer to, also through containers that hide them from gc.

        `spare`: how many references to each array are ours.
        """
        pending = [self._count_referents(found, spare)]
        while pending:  # ends: an untracked dict or tuple is part of no cycle
            hidden = pending[-1]
            chunk = hidden[-CHUNK:]
            del hidden[-CHUNK:]
            if not hidden:
                pending.pop()
            for some, spare in holders(chunk):
                inner = self._count_referents(some, spare)
                if inner:
                    pending.append(inner)

    def _count_referents(self, holding: list[Any], spare: int) -> list[Any]:
        """Count the arrays that objects refer to; return containers that gc does not track."""
        found = self._search(holding, spare)
        kinds, is_tracked = set(map(id, map(type, found))), gc.is_tracked
        for key in kinds & self._untracked.keys():
            # always a copy, also if nothing is left out: _REFERENCES counts it
            arrays = [obj for obj in found if id(type(obj)) == key]
            self._count(key, self._once(arrays, spare))
        hidden: list[Any] = []
        if id(dict) in kinds:
            hidden = [obj for obj in found if type(obj) is dict and obj and not is_tracked(obj)]
        if id(tuple) in kinds:
            tuples = [obj for obj in found if type(obj) is tuple and obj]
            del found  # one reference less to each
            hidden += self._new_tuples(tuples, spare)
        return hidden

    def _search(self, holding: list[Any], spare: int) -> list[Any]:
        """The referents that matter; the compiled search counts numpy's arrays itself."""
        ndarray, compiled = numpy_array(), tracked_objects.heap_walk
        if compiled is None or ndarray is None:
            wanted = self._untracked.keys() | _HIDING
            return [obj for obj in gc.get_referents(*holding) if id(type(obj)) in wanted]
        kinds = [kind for kind in self._untracked.values() if array_kind(kind) != "numpy"]
        rows, others = compiled.search(
            holding, ndarray, numpy_getters(ndarray), LARGE_BYTES, (dict, tuple, *kinds)
        )
        self._count_rows(rows, spare)
        return others

    def _count_rows(self, rows: list[tuple[Any, ...]], spare: int) -> None:
        """Add arrays that are described by rows of facts, each array once."""
        found, times = self._arrays, Counter(row[1] for row in rows)
        for kind, identity, references, size, base, *details in rows:
            if identity in self._seen or not times[identity] or flags_of(kind) & HAS_GC:
                continue  # arrays that gc tracks are counted by `take`
            # one reference per occurrence is ours; arrays with more holders may be met again
            ours = (1 + spare) * times[identity]
            if references - ours > times[identity] and len(self._seen) < MAX_SHARED:
                self._seen.add(identity)
            times[identity] = 0
            found.array_kinds[id(kind)] = kind
            found.array_counts[id(kind)] += 1
            found.array_bytes[id(kind)] += size if base is None else 0
            if details[0] is not None and len(found.large) < MAX_LARGE:
                storage = described_storage(kind, size, base, *details)
                found.large.setdefault(storage.address or 0, storage)

    def _new_tuples(self, tuples: list[Any], spare: int) -> list[Any]:
        """Tuples that were not searched yet; those with several holders are met several times."""
        counts = list(map(sys.getrefcount, tuples))
        one_holder = _ONE_HOLDER + spare
        if not counts or max(counts) <= one_holder:
            return tuples
        pairs = list(zip(tuples, counts, strict=True))
        single = [obj for obj, count in pairs if count <= one_holder]
        if len(self._seen_tuples) >= MAX_SHARED:
            return single  # the others could be met again without end
        shared = {id(obj): obj for obj, count in pairs if count > one_holder}
        new = [obj for key, obj in shared.items() if key not in self._seen_tuples]
        self._seen_tuples.update(shared)
        return single + new

    def _once(self, arrays: list[Any], spare: int) -> list[Any]:
        """Each array once; only those with holders that were not met yet are remembered."""
        counts = list(map(sys.getrefcount, arrays))
        if max(counts) <= 1 + _REFERENCES + spare:
            return arrays
        ids = list(map(id, arrays))
        references = dict(zip(ids, counts, strict=True))
        unique = dict(zip(ids, arrays, strict=True))
        if not self._seen.isdisjoint(unique):
            unique = {key: array for key, array in unique.items() if key not in self._seen}
        if len(self._seen) < MAX_SHARED:
            times = Counter(ids)
            self._seen.update(
                key
                for key, count in references.items()
                if count > 1 + (_REFERENCES + spare) * times[key]
            )
        return list(unique.values())

    def _count(self, key: int, arrays: list[Any]) -> None:
        """Add arrays of one type to the result."""
        found, kind, views = self._arrays, self._kinds[key], []
        if array_kind(kind) == "numpy":
            # through ndarray's own descriptors: a subclass may have overridden them
            ndarray: Any = numpy_array()
            sizes = list(map(ndarray.nbytes.__get__, arrays))
            bases = map(ndarray.base.__get__, arrays)
            views = list(compress(arrays, map(is_not, bases, repeat(None))))
            owned = sum(sizes) - sum(map(ndarray.nbytes.__get__, views))
        else:
            sizes = list(map(quick_bytes, arrays))
            owned = sum(sizes)
        found.array_kinds[key] = kind
        found.array_counts[key] += len(arrays)
        found.array_bytes[key] += owned
        large = list(compress(arrays, map(LARGE_BYTES.__le__, sizes)))
        large += views  # a small view of a large block keeps all of it alive
        for array in large[: max(0, MAX_LARGE - len(found.large))]:
            # its address, not the array: ndarray.resize() fails while others refer to the array
            storage = storage_of(array)
            if storage is not None and storage.address:
                found.large.setdefault(storage.address, storage)


@once_a_type
def _needs_care(kind: type) -> bool:
    """Whether an instance may refer to many objects, of which `len` knows nothing."""
    if id(kind) in _LENGTHY:
        return False
    return container_kind(kind) is not None or even_bytes(kind) is None
