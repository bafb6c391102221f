"""Counts live objects by type, and finds all arrays, also those that gc does not track.

Types are counted, sizes are summed and referents are searched in C, a few objects at a time: the
memory needed does not grow with the number of objects.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import compress
from typing import Any
from weakref import ref

from ramledger.hooks.tf_functions import is_traced_function
from ramledger.interpreter.array_storage import (
    LARGE_BYTES,
    Storage,
    array_kind,
    storage_of,
)
from ramledger.interpreter.attributes import let_go
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.frames import frame_locals, running_frames
from ramledger.interpreter.object_sizes import even_bytes, size_of, size_rule
from ramledger.interpreter.tally import Tally
from ramledger.interpreter.tensor_fields import graph_depth, has_graph, may_be_listed
from ramledger.interpreter.tracked_objects import TrackedObjects, TypeRow, What
from ramledger.interpreter.type_facts import basic_size, namespace_of, package_and_name, type_name
from ramledger.interpreter.user_code import is_user_type
from ramledger.ledger import TypeCount
from ramledger.objects.census.array_search import ArraySearch
from ramledger.objects.roles import role_of
from ramledger.type_ranks import KNOWN, TypeRank, type_rank

MAX_RECOGNIZED = 20_000
MAX_TENSORS = 50_000
MAX_OF_CLASS = 200  # instances of a class of the user's that are looked at
MAX_TRACED = 5_000
MAX_SIZED = 200  # instances of a type whose size only its own method knows
MOST_PASSES = 4  # each is given up when a full collection comes
MAX_WITH_GRAPH = 4  # tensors whose graph's depth is measured
# Types that earlier snapshots found to be only counted, without and with a search for arrays: most
# are those of libraries. By id; a dead one does not count.
_COUNTED: tuple[dict[int, ref[type]], dict[int, ref[type]]] = ({}, {})
_MAX_COUNTED = 10_000
_RECORD_MARKS = ("__dataclass_fields__", "_fields")


@dataclass(slots=True)
class LiveObjects:
    """The result. It holds strong references: drop it soon."""

    counts: list[tuple[type, int]] = field(default_factory=list)
    why_not: str = ""  # the reason, if objects were not counted
    # by id of the type, as `array_...` below: bytes of all instances, without their dictionaries
    sizes: dict[int, int] = field(default_factory=dict)
    array_counts: Tally[int] = field(default_factory=Tally)
    array_bytes: Tally[int] = field(default_factory=Tally)
    array_kinds: dict[int, type] = field(default_factory=dict)
    large: dict[int, Storage] = field(default_factory=dict)  # arrays, by address
    recognized: list[Any] = field(default_factory=list)
    of_user_classes: list[Any] = field(default_factory=list)  # some of each class
    user_kinds: list[type] = field(default_factory=list)
    graph_tensors: int = 0
    graph_depth: int = 0
    traced: list[Any] = field(default_factory=list)  # TensorFlow's functions
    addresses: list[int] = field(default_factory=list)  # of some objects, sorted

    @property
    def tracked(self) -> int:
        return sum(count for _, count in self.counts)

    def type_counts(self, top: int = 20) -> tuple[TypeCount, ...]:
        """The largest types by bytes, every class of the user, and roles of frameworks."""
        rows = [
            TypeCount(type_name(kind), count, self.sizes.get(id(kind), 0))
            for kind, count in self._not_ours()
            if not self.array_counts.get(id(kind))
        ]
        rows += [
            TypeCount(type_name(kind), self.array_counts[key], self.array_bytes[key])
            for key, kind in self.array_kinds.items()
        ]
        users = set(self.user_classes())
        ranked = [(type_rank(row.type, users), row) for row in rows]
        ranked = [row for row in ranked if row[0] is not TypeRank.HIDDEN]
        ranked.sort(key=lambda row: (-row[1].bytes, row[1].type))
        return tuple(
            row for place, (rank, row) in enumerate(ranked) if place < top or rank in KNOWN
        )

    def counts_by_name(self) -> dict[str, int]:
        """All live instances by type, without ramledger's own."""
        found: Counter[str] = Counter()
        for kind, count in self._not_ours():
            found[type_name(kind)] += count
        return dict(found)

    def _not_ours(self) -> list[tuple[type, int]]:
        return [row for row in self.counts if package_and_name(row[0])[0] != "ramledger"]

    def user_classes(self) -> list[str]:
        """The user's classes that have instances."""
        return [type_name(kind) for kind in self.user_kinds]

    def record_classes(self) -> list[str]:
        """The user's classes that are dataclasses or named tuples."""
        return [
            type_name(kind)
            for kind in self.user_kinds
            if any(mark in namespace_of(kind) for mark in _RECORD_MARKS)
        ]


def count_live_objects(*, arrays: bool = True, allowance: Allowance | None = None) -> LiveObjects:
    """Count everything that is alive, and find every array. Safe while other threads run.

    Without `arrays` nothing is sized and only tensors are found, at a fraction of the cost.
    """
    allowance = allowance or Allowance()
    for _ in range(MOST_PASSES):
        found, is_reordered = _one_pass(arrays, allowance)
        if not is_reordered:
            return found
    return LiveObjects(why_not=found.why_not)


def _one_pass(arrays: bool, allowance: Allowance) -> tuple[LiveObjects, bool]:
    """What was found, and whether it is worthless: objects may have been met twice."""
    found = LiveObjects()
    search = ArraySearch(found) if arrays else None
    known = _KnownObjects(found, search)
    # since 3.11 gc does not track running frames; it tracks this list of what only a local holds
    values = [v for f in running_frames() for _, v in frame_locals(f)] if arrays else []
    objects = TrackedObjects(known.classify, allowance, search)
    for chunk in objects:
        for kind in known.take(chunk):
            objects.count_only(kind)
        let_go(chunk)
    values.clear()
    found.counts, found.why_not = objects.counts, objects.why_not
    found.addresses = sorted(objects.addresses)
    found.graph_depth = graph_depth(known.with_graph)
    known.with_graph.clear()
    if arrays:
        _add_rows(found, objects.rows, known.mean_sizes)
    return found, objects.is_reordered


def _add_rows(found: LiveObjects, rows: list[TypeRow], means: dict[int, list[int]]) -> None:
    """Add the arrays and the sizes that were summed by type."""
    for kind, count, size, arrays, array_bytes in rows:
        if arrays:
            found.array_kinds[id(kind)] = kind
            found.array_counts[id(kind)] += arrays
            found.array_bytes[id(kind)] += array_bytes
        if size < 0:
            sample = means.get(id(kind), [])
            even = even_bytes(kind) or (sum(sample) // len(sample) if sample else basic_size(kind))
            size = count * even
        found.sizes[id(kind)] = size


class _KnownObjects:
    """Keeps instances of known classes and of the user's classes, up to a limit for each."""

    def __init__(self, found: LiveObjects, search: ArraySearch | None) -> None:
        self.with_graph: list[Any] = []
        self.mean_sizes: dict[int, list[int]] = {}  # sizes of some instances, by id of the type
        self._found = found
        self._search = search
        self._storages: set[int] = set()
        self._tensors = 0
        self._of_class: Tally[int] = Tally()
        self._takers: dict[int, tuple[type, _Taker]] = {}

    def classify(self, kind: type) -> What:
        """What to do with the instances of a type."""
        counted = _COUNTED[self._search is not None]
        known = counted.get(id(kind))
        if known is not None and known() is kind:
            return What.COUNT
        try:
            taker = self._taker(kind)
        except Exception:  # an unusual class loses its own instances, never the count
            taker = None
        if taker is None:
            if len(counted) >= _MAX_COUNTED:
                counted.clear()
            counted[id(kind)] = ref(kind)
            return What.COUNT
        self._takers[id(kind)] = (kind, taker)
        if is_user_type(kind):
            self._found.user_kinds.append(kind)
        return What.COLLECT

    def _taker(self, kind: type) -> "_Taker | None":
        if kind is tuple or kind is frozenset:
            return None
        if array_kind(kind) == "torch":
            return _KnownObjects._take_tensor
        if is_traced_function(kind):
            return _KnownObjects._take_traced
        if role_of(kind) is not None:
            return _KnownObjects._take_recognized
        if is_user_type(kind):
            return _KnownObjects._take_of_user
        return self._taker_in_search(kind) if self._search is not None else None

    def _taker_in_search(self, kind: type) -> "_Taker | None":
        if array_kind(kind) not in ("", "numpy", "bytes"):
            return _KnownObjects._take_array
        if even_bytes(kind) is None and size_rule(kind) == (0, 0, None):
            return _KnownObjects._take_size
        return None

    def take(self, chunk: list[Any]) -> list[type]:
        """Keep the objects that are needed; returns classes of which there are enough now."""
        takers, enough = self._takers, []
        identities = list(map(id, map(type, chunk)))
        for obj in compress(chunk, map(takers.__contains__, identities)):
            kind, taker = takers.get(id(type(obj)), (None, None))
            if kind is not None and taker is not None and not taker(self, obj):
                del takers[id(kind)]
                enough.append(kind)
        return enough

    def _take_tensor(self, tensor: Any) -> bool:
        if not may_be_listed():
            return False
        found, key = self._found, id(type(tensor))
        found.array_kinds[key] = type(tensor)
        found.array_counts[key] += 1
        self._tensors += 1
        if has_graph(tensor):
            found.graph_tensors += 1
            if len(self.with_graph) < MAX_WITH_GRAPH:
                self.with_graph.append(tensor)
        storage = storage_of(tensor)
        if storage is None or storage.address is None or storage.address in self._storages:
            return self._tensors < MAX_TENSORS
        self._storages.add(storage.address)
        found.array_bytes[key] += storage.reserved_bytes
        if storage.reserved_bytes >= LARGE_BYTES:
            found.large.setdefault(storage.address, storage)
        return self._tensors < MAX_TENSORS

    def _take_traced(self, function: Any) -> bool:
        self._found.traced.append(function)
        return len(self._found.traced) < MAX_TRACED

    def _take_recognized(self, obj: Any) -> bool:
        self._found.recognized.append(obj)
        return len(self._found.recognized) < MAX_RECOGNIZED

    def _take_of_user(self, obj: Any) -> bool:
        self._found.of_user_classes.append(obj)
        self._of_class[id(type(obj))] += 1
        return self._of_class[id(type(obj))] < MAX_OF_CLASS

    def _take_array(self, array: Any) -> bool:
        if self._search is not None:
            self._search.take_others([array])
        return True

    def _take_size(self, obj: Any) -> bool:
        sizes = self.mean_sizes.setdefault(id(type(obj)), [])
        sizes.append(size_of(obj))
        return len(sizes) < MAX_SIZED


# Takes an object, returns whether more of its class are needed. Not a bound method: no cycle.
_Taker = Callable[[_KnownObjects, Any], bool]
