"""Counts live objects by type, and finds all arrays, also those that gc does not track.

Types are counted in C, sizes are sampled, referents are searched in chunks: the memory needed does
not grow with the number of objects.
"""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from ramledger.hooks.tf_functions import is_traced_function
from ramledger.interpreter.array_storage import (
    LARGE_BYTES,
    Storage,
    array_kind,
    has_graph,
    storage_of,
)
from ramledger.interpreter.attributes import let_go
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.frames import frame_locals, running_frames
from ramledger.interpreter.object_sizes import even_bytes, size_of
from ramledger.interpreter.tracked_objects import TrackedObjects, What
from ramledger.interpreter.type_facts import basic_size, namespace_of, package_and_name, type_name
from ramledger.interpreter.user_code import is_user_type
from ramledger.ledger import TypeCount
from ramledger.objects.array_search import ArraySearch
from ramledger.objects.autograd_depth import graph_depth
from ramledger.objects.roles import role_of
from ramledger.type_ranks import KNOWN, TypeRank, type_rank

SIZE_SAMPLE = 80_000
EXACT_UP_TO = 2_000
ADDRESS_SAMPLE = 4_000
MAX_RECOGNIZED = 20_000
MAX_TENSORS = 50_000
MAX_OF_USERS = 5_000
MAX_TRACED = 5_000
MAX_WITH_GRAPH = 4  # tensors whose graph's depth is measured
_RECORD_MARKS = ("__dataclass_fields__", "_fields")


@dataclass(slots=True)
class LiveObjects:
    """The result. It holds strong references: drop it soon."""

    counts: list[tuple[type, int]] = field(default_factory=list)
    why_not: str = ""  # the reason, if objects were not counted
    mean_bytes: dict[int, float] = field(
        default_factory=dict
    )  # by id of the type, as `array_...` below
    array_counts: Counter[int] = field(default_factory=Counter)
    array_bytes: Counter[int] = field(default_factory=Counter)
    array_kinds: dict[int, type] = field(default_factory=dict)
    large: dict[int, Storage] = field(default_factory=dict)  # arrays, by address
    recognized: list[Any] = field(default_factory=list)
    of_user_classes: list[Any] = field(default_factory=list)
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
            TypeCount(type_name(kind), count, int(count * self.mean_bytes.get(id(kind), 0)))
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
        return [type_name(kind) for kind, _ in self.counts if is_user_type(kind)]

    def record_classes(self) -> list[str]:
        """The user's classes that are dataclasses or named tuples."""
        users = [kind for kind, _ in self.counts if is_user_type(kind)]
        return [
            type_name(kind)
            for kind in users
            if any(mark in namespace_of(kind) for mark in _RECORD_MARKS)
        ]


def count_live_objects(*, arrays: bool = True, allowance: Allowance | None = None) -> LiveObjects:
    """Count everything that is alive, and find every array. Safe while other threads run.

    Without `arrays` nothing is sized and only tensors are found, at a fraction of the cost.
    """
    found = LiveObjects()
    known = _KnownObjects(found)
    objects = TrackedObjects(known.classify, allowance or Allowance(), everything=arrays)
    step = max(1, sys.getallocatedblocks() // ADDRESS_SAMPLE)
    sizes = _Sizes(found)
    search = ArraySearch(found)
    if arrays:
        # since 3.11 gc does not track running frames: what only a local holds is found here
        search.count_below([[v for f in running_frames() for _, v in frame_locals(f)]])
    for chunk in objects:
        found.addresses += map(id, chunk[::step])
        for kind in known.take(chunk):
            objects.count_only(kind)
        if arrays:
            sizes.take(chunk)
            with suppress(Exception):  # an unusual object spoils at most its chunk, never the count
                search.take(chunk)
        let_go(chunk)
    found.counts, found.why_not = objects.counts, objects.why_not
    found.addresses.sort()
    found.graph_depth = graph_depth(known.with_graph)
    known.with_graph.clear()
    if arrays:
        sizes.finish()
    return found


class _KnownObjects:
    """Keeps instances of known classes and of the user's classes, up to a limit for each."""

    def __init__(self, found: LiveObjects) -> None:
        self.with_graph: list[Any] = []
        self._found = found
        self._storages: set[int] = set()
        self._tensors = 0
        self._takers: dict[int, tuple[type, _Taker]] = {}

    def classify(self, kind: type) -> What:
        """What to do with the instances of a type."""
        try:
            taker = self._taker(kind)
        except Exception:  # an unusual class loses its own instances, never the count
            taker = None
        if taker is None:
            return What.COUNT
        self._takers[id(kind)] = (kind, taker)
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
        return _KnownObjects._take_of_user if is_user_type(kind) else None

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
        return len(self._found.of_user_classes) < MAX_OF_USERS


# Takes an object, returns whether more of its class are needed. Not a bound method: no cycle.
_Taker = Callable[[_KnownObjects, Any], bool]


class _Sizes:
    """Mean size by type: exact for types with few instances, sampled for the others."""

    def __init__(self, found: LiveObjects) -> None:
        self._found = found
        self._exact, self._sampled = _Mean(), _Mean()
        self._done: set[int] = (
            set()
        )  # types with one size for all instances, and types with many instances
        self._step = max(1, sys.getallocatedblocks() // SIZE_SAMPLE)

    def take(self, chunk: list[Any]) -> None:
        identities = list(map(id, map(type, chunk)))
        for key, obj in dict(zip(identities, chunk, strict=True)).items():
            is_common = self._exact.counts[key] >= EXACT_UP_TO
            if is_common or even_bytes(type(obj)) is not None:
                self._done.add(key)
        few = [key not in self._done for key in identities]
        for obj in compress(chunk, few):
            self._exact.add(id(type(obj)), size_of(obj))
        for obj in chunk[:: self._step]:
            size = size_of(obj)
            if size < LARGE_BYTES:  # one huge object must not represent many
                self._sampled.add(id(type(obj)), size)

    def finish(self) -> None:
        for kind, count in self._found.counts:
            even = even_bytes(kind)
            mean = self._exact if self._exact.counts[id(kind)] == count else self._sampled
            found = float(even) if even is not None else mean.of(id(kind))
            self._found.mean_bytes[id(kind)] = found or float(basic_size(kind))


class _Mean:
    def __init__(self) -> None:
        self.totals: Counter[int] = Counter()
        self.counts: Counter[int] = Counter()

    def add(self, key: int, size: int) -> None:
        self.totals[key] += size
        self.counts[key] += 1

    def of(self, key: int) -> float:
        return self.totals[key] / self.counts[key] if self.counts[key] else 0.0
