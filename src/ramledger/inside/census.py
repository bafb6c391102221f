"""Live objects by type, and every array although the garbage collector does not track arrays.

Costs about 0.3 s per million objects and a few MiB: types are counted at C speed, sizes are
taken on an even sample, referents are looked through in chunks.
"""

import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import compress, islice, repeat
from operator import is_not
from typing import Any

from ramledger.inside.attributes import let_go
from ramledger.inside.bulk import has_dict_of_its_own, quick_bytes, size_of, size_with_header
from ramledger.inside.frames import frame_locals, running_frames
from ramledger.inside.graph_depth import graph_depth
from ramledger.inside.recognize import role_of
from ramledger.inside.roots import is_user_type
from ramledger.inside.storage import (
    LARGE_BYTES,
    array_kind,
    has_graph,
    storage_of,
    untracked_array_types,
)
from ramledger.inside.traced import is_traced_function
from ramledger.inside.typenames import once_a_type, package_and_name, type_name
from ramledger.ledger import TypeCount

SIZE_SAMPLE = 20_000
EXACT_UP_TO = 2_000
MAX_LARGE = 20_000
ADDRESS_SAMPLE = 20_000
LIGHT_ADDRESS_SAMPLE = 4_000
MAX_TENSORS = 50_000
MAX_OF_USERS = 5_000
MAX_SHARED = 100_000
CHUNK = 1_000  # what is looked through at a time should stay in the processor's cache
REFERENTS = 20_000
# to an array while we look, for each of its holders: the holder itself, and the lists `referents`,
# `found` and `arrays`; one more is getrefcount's own argument
_REFERENCES = 4
_LENGTHY = frozenset({list, dict, tuple, set, frozenset})
_ONE_HOLDER = 1 + _REFERENCES  # of a tuple: the lists are `referents`, `found` and `tuples`
_MAY_BE_UNFINISHED = frozenset({tuple, frozenset})
_RECORD_MARKS = frozenset({"__dataclass_fields__", "_fields"})
_HAS_GC = 1 << 14  # Py_TPFLAGS_HAVE_GC
_HIDING = frozenset({dict, tuple})  # gc stops tracking these when they hold only atoms and arrays
# longer than a wait for a processor; a third thread may have to wait so long for the GIL
_UNDISTURBED_SECONDS = 3.0


@dataclass(slots=True)
class Census:
    """What is alive. Its lists are strong references: drop it soon."""

    tracked: int = 0
    counts: Counter[type] = field(default_factory=Counter)
    mean_bytes: dict[type, float] = field(default_factory=dict)
    array_counts: Counter[type] = field(default_factory=Counter)
    array_bytes: Counter[type] = field(default_factory=Counter)
    large_arrays: list[Any] = field(default_factory=list)
    recognized: list[Any] = field(default_factory=list)
    of_user_classes: list[Any] = field(default_factory=list)
    graph_tensors: int = 0
    graph_depth: int = 0
    traced: list[Any] = field(default_factory=list)  # TensorFlow's functions
    addresses: list[int] = field(default_factory=list)  # sorted sample of where objects live

    def type_counts(self, top: int = 20) -> tuple[TypeCount, ...]:
        """The largest types by bytes, and every class of the user's own."""
        rows = [
            TypeCount(type_name(kind), count, int(count * self.mean_bytes.get(kind, 0)))
            for kind, count in self.counts.items()
            if not self.array_counts.get(kind) and package_and_name(kind)[0] != "ramledger"
        ]
        rows += [
            TypeCount(type_name(kind), count, self.array_bytes[kind])
            for kind, count in self.array_counts.items()
        ]
        rows.sort(key=lambda row: (-row.bytes, row.type))
        users = {type_name(kind) for kind in self.counts if is_user_type(kind)}
        return tuple(row for rank, row in enumerate(rows) if rank < top or row.type in users)

    def counts_by_name(self) -> dict[str, int]:
        """All live instances by type, the tool's own left out."""
        found: Counter[str] = Counter()
        for kind, count in self.counts.items():
            if package_and_name(kind)[0] != "ramledger":
                found[type_name(kind)] += count
        return dict(found)

    def user_classes(self) -> list[str]:
        """Classes of the user's own that have instances."""
        return [type_name(kind) for kind in self.counts if is_user_type(kind)]

    def record_classes(self) -> list[str]:
        """Those of them that are data: dataclasses and named tuples."""
        users = [kind for kind in self.counts if is_user_type(kind)]
        return [type_name(kind) for kind in users if _RECORD_MARKS & kind.__dict__.keys()]


def take_census(*, arrays: bool = True) -> Census:
    """Count everything alive now, and find every array. Safe while other threads run.

    Without `arrays` nothing is sized and only tensors are found, at a fraction of the cost.
    """
    if not arrays:
        return _take_light_census()
    counts, objects = _counts_and_finished()
    census = Census(tracked=counts.total(), counts=counts)
    census.addresses = sorted(map(id, objects[:: max(1, len(objects) // ADDRESS_SAMPLE)]))
    uneven = {kind for kind in census.counts if _even_bytes(kind) is None}
    rare = {kind for kind in uneven if census.counts[kind] <= EXACT_UP_TO}
    rare_objects = _collect_known(objects, census, rare)
    sample = objects[:: max(1, len(objects) // SIZE_SAMPLE)]
    _size_types(rare_objects, _of_kinds(sample, uneven - rare), census)
    let_go(rare_objects)
    _collect_arrays(objects, census)
    let_go(objects)
    return census


def _is_known(kind: type) -> bool:
    if is_traced_function(kind) or array_kind(kind) == "torch":
        return True
    return role_of(kind) is not None or is_user_type(kind)


def _take_light_census() -> Census:
    """Counts, and the instances of known classes; a sample of all addresses on the way."""
    with undisturbed():
        objects = gc.get_objects()
        kinds = list(map(type, objects))
        census = Census(tracked=len(objects), counts=Counter(kinds))
        known = {kind for kind in census.counts if _is_known(kind)} - _MAY_BE_UNFINISHED
        # by number: most objects are in no cache, and each is touched once, for its type
        numbers = compress(range(len(kinds)), map(known.__contains__, kinds))
        found = [objects[number] for number in numbers]
        step = max(1, len(objects) // LIGHT_ADDRESS_SAMPLE)
        census.addresses = sorted(map(id, objects[::step]))
        let_go(kinds)
        let_go(objects)
    _collect_known(found, census, set())
    let_go(found)
    return census


def _counts_and_finished() -> tuple[Counter[type], list[Any]]:
    """All tracked objects by type, and all but tuples.

    The garbage collector shows tuples that C code is still filling, as tuple(map(...)) does.
    Resizing one that somebody else holds is a SystemError in the program (_PyTuple_Resize), so no
    reference to a tuple may exist when another thread runs: not even the list of all objects.
    """
    with undisturbed():
        objects = gc.get_objects()
        counts = Counter(map(type, objects))
        finished = [obj for obj in objects if type(obj) not in _MAY_BE_UNFINISHED]
        let_go(objects)
    return counts, finished


@contextmanager
def undisturbed() -> Iterator[None]:
    """No other thread takes the GIL meanwhile, also where the kernel gives us no processor.

    A waiting thread asks for the GIL when it has waited a switch interval in which nobody else
    got it (take_gil in Python/ceval_gil.c): so make that long, then get it anew. Who waits wakes
    up when it is released at the end.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(max(_UNDISTURBED_SECONDS, interval))
    try:
        time.sleep(0)
        yield
    finally:
        sys.setswitchinterval(interval)
        time.sleep(0)


def _of_kinds(objects: list[Any], kinds: Set[type]) -> list[Any]:
    return [obj for obj in objects if type(obj) in kinds]


def _some(objects: list[Any], kinds: Set[type]) -> Iterator[Any]:
    return (obj for obj in objects if type(obj) in kinds)


@once_a_type
def _even_bytes(kind: type) -> int | None:
    """The size of every instance, where instances cannot differ in size."""
    sizeof = next(a.__dict__["__sizeof__"] for a in kind.__mro__ if "__sizeof__" in a.__dict__)
    is_even = kind.__itemsize__ == 0 and sizeof is object.__dict__["__sizeof__"]
    return size_with_header(kind) if is_even or has_dict_of_its_own(kind) else None


def _size_types(all_rare: list[Any], sample: list[Any], census: Census) -> None:
    """Mean size by type: exact for types with few instances, sampled for the others."""
    totals: Counter[type] = Counter()
    counted: Counter[type] = Counter()
    for objects, is_sample in ((all_rare, False), (sample, True)):
        for obj in objects:
            size = size_of(obj)
            if not is_sample or size < LARGE_BYTES:  # one giant must not stand for many
                totals[type(obj)] += size
                counted[type(obj)] += 1
    for kind in census.counts:
        n = counted[kind]
        even = _even_bytes(kind) or kind.__basicsize__
        census.mean_bytes[kind] = totals[kind] / n if n else float(even)


def _collect_known(objects: list[Any], census: Census, others: Set[type]) -> list[Any]:
    """Find what we know by its class in one pass; return the instances of `others`."""
    wanted = {kind for kind in census.counts if role_of(kind) is not None}
    tensors = {kind for kind in census.counts if array_kind(kind) == "torch"}
    users = {kind for kind in census.counts if is_user_type(kind)} - wanted
    traced = {kind for kind in census.counts if is_traced_function(kind)}
    instances = _of_kinds(objects, wanted | tensors | users | others | traced)
    census.traced = _of_kinds(instances, traced)
    census.recognized = _of_kinds(instances, wanted)
    census.of_user_classes = list(islice(_some(instances, users), MAX_OF_USERS))
    found = list(islice(_some(instances, tensors), MAX_TENSORS))
    storages: set[int] = set()
    for tensor in found:
        _count_tensor(tensor, census, storages)
    with_graph = list(filter(has_graph, found))
    census.graph_tensors, census.graph_depth = len(with_graph), graph_depth(with_graph)
    let_go(with_graph)
    let_go(found)
    rest = _of_kinds(instances, others)
    let_go(instances)
    return rest


def _count_tensor(tensor: Any, census: Census, storages: set[int]) -> None:
    storage = storage_of(tensor)
    census.array_counts[type(tensor)] += 1
    if storage is None or storage.address is None or storage.address in storages:
        return
    storages.add(storage.address)
    census.array_bytes[type(tensor)] += storage.reserved_bytes
    if storage.reserved_bytes >= LARGE_BYTES:
        census.large_arrays.append(tensor)


def _collect_arrays(objects: list[Any], census: Census) -> None:
    """Arrays are reached through what refers to them; many containers of arrays are untracked."""
    search = _ArraySearch(census)
    for kind in search.tracked.intersection(census.counts):
        search.count(kind, _of_kinds(objects, {kind}))
    # since 3.11 a running frame is no gc object: what only a local holds is seen here
    search.look_deep([v for f in running_frames() for _, v in frame_locals(f)])
    for start in range(0, len(objects), CHUNK):
        for referents in _referents(objects[start : start + CHUNK]):
            search.look_deep(referents)


def _referents(objects: list[Any]) -> Iterator[list[Any]]:
    """What the objects refer to, in lists of bounded length."""
    if sum([len(obj) for obj in objects if type(obj) in _LENGTHY]) <= REFERENTS:
        yield gc.get_referents(*objects)
    elif len(objects) > 1:
        middle = len(objects) // 2
        yield from _referents(objects[:middle])
        yield from _referents(objects[middle:])
    elif type(objects[0]) in (list, tuple):
        for start in range(0, len(objects[0]), REFERENTS):
            yield list(objects[0][start : start + REFERENTS])
    else:
        yield gc.get_referents(*objects)


class _ArraySearch:
    """Finds arrays among referents, each counted once, at a few tens of nanoseconds an object."""

    def __init__(self, census: Census) -> None:
        self._census = census
        arrays = untracked_array_types(census.counts)
        self.tracked = {kind for kind in arrays if kind.__flags__ & _HAS_GC}
        self._untracked = arrays - self.tracked
        self._wanted = self._untracked | _HIDING
        self._seen: set[int] = set()
        self._seen_tuples: set[int] = set()

    def look_deep(self, referents: list[Any]) -> None:
        """Count arrays in `referents` and in the containers among them that hide arrays from gc."""
        pending = [self._look(referents)]
        while pending:  # an untracked dict or tuple is in no cycle: this ends
            hidden = pending[-1]
            chunk = hidden[-CHUNK:]
            del hidden[-CHUNK:]
            if not hidden:
                pending.pop()
            found = self._look(gc.get_referents(*chunk))
            if found:
                pending.append(found)

    def _look(self, referents: list[Any]) -> list[Any]:
        """Count the arrays in `referents`; return containers that gc does not track."""
        wanted, is_tracked = self._wanted, gc.is_tracked
        found = [obj for obj in referents if type(obj) in wanted]
        kinds = set(map(type, found))
        self._count_untracked(found, kinds)
        hidden: list[Any] = []
        if dict in kinds:
            hidden = [obj for obj in found if type(obj) is dict and obj and not is_tracked(obj)]
        if tuple in kinds:
            hidden += self._new_tuples([obj for obj in found if type(obj) is tuple and obj])
        return hidden

    def _count_untracked(self, found: list[Any], kinds: set[type]) -> None:
        mixed = len(kinds) > 1
        for kind in kinds & self._untracked:
            # a copy also where nothing is left out: it counts in _REFERENCES
            arrays = [obj for obj in found if type(obj) is kind] if mixed else list(found)
            self.count(kind, self._once(arrays))

    def _new_tuples(self, tuples: list[Any]) -> list[Any]:
        """Tuples are not among the objects we go through; those with several holders come again."""
        counts = list(map(sys.getrefcount, tuples))
        if not counts or max(counts) <= _ONE_HOLDER:
            return tuples
        pairs = list(zip(tuples, counts, strict=True))
        shared = {id(obj): obj for obj, count in pairs if count > _ONE_HOLDER}
        new = [obj for key, obj in shared.items() if key not in self._seen_tuples]
        if len(self._seen_tuples) < MAX_SHARED:
            self._seen_tuples.update(shared)
        return [obj for obj, count in pairs if count <= _ONE_HOLDER] + new

    def _once(self, arrays: list[Any]) -> list[Any]:
        """Each array once. Remembered are only those that have more holders than are seen here."""
        counts = list(map(sys.getrefcount, arrays))
        if max(counts) <= 1 + _REFERENCES:
            return arrays
        ids = list(map(id, arrays))
        references = dict(zip(ids, counts, strict=True))
        unique = dict(zip(ids, arrays, strict=True))
        if not self._seen.isdisjoint(unique):
            unique = {key: array for key, array in unique.items() if key not in self._seen}
        if len(self._seen) < MAX_SHARED:
            times = Counter(ids)
            self._seen.update(
                key for key, count in references.items() if count > 1 + _REFERENCES * times[key]
            )
        return list(unique.values())

    def count(self, kind: type, arrays: list[Any]) -> None:
        """Add arrays of one type to the census."""
        census, views = self._census, []
        if array_kind(kind) == "numpy":
            # of the class itself: a subclass may have made properties of them
            ndarray: Any = sys.modules["numpy"].ndarray
            sizes = list(map(ndarray.nbytes.__get__, arrays))
            bases = map(ndarray.base.__get__, arrays)
            views = list(compress(arrays, map(is_not, bases, repeat(None))))
            owned = sum(sizes) - sum(map(ndarray.nbytes.__get__, views))
        else:
            sizes = list(map(quick_bytes, arrays))
            owned = sum(sizes)
        census.array_counts[kind] += len(arrays)
        census.array_bytes[kind] += owned
        large = list(compress(arrays, map(LARGE_BYTES.__le__, sizes)))
        large += views  # a small view of a large block keeps all of it alive
        census.large_arrays += large[: max(0, MAX_LARGE - len(census.large_arrays))]
