"""Live objects by type, and every array although the garbage collector does not track arrays.

Costs about 0.3 s per million objects and a few MiB: types are counted at C speed, sizes are
taken on an even sample, referents are looked through in chunks.
"""

import gc
import sys
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ramledger.inside.bulk import CHUNK, quick_bytes, size_of
from ramledger.inside.frames import frame_locals, running_frames
from ramledger.inside.recognize import role_of
from ramledger.inside.roots import is_user_type
from ramledger.inside.storage import (
    LARGE_BYTES,
    array_kind,
    storage_of,
    untracked_array_types,
)
from ramledger.inside.typenames import package_and_name, type_name
from ramledger.ledger import TypeCount

SIZE_SAMPLE = 20_000
EXACT_UP_TO = 2_000
MAX_LARGE = 20_000
ADDRESS_SAMPLE = 20_000
MAX_TENSORS = 50_000
MAX_OF_USERS = 5_000
MAX_USER_CLASSES = 40
MAX_COUNTS = 25
MAX_SHARED = 100_000
# references to an array with one holder while we look: the holder, referents, found, arrays,
# unique, and getrefcount's own argument
_ONE_HOLDER = 6
_HIDING = frozenset({dict, tuple})  # gc stops tracking these when they hold only atoms and arrays


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

    def live_counts(self, watched: Collection[str] = ()) -> dict[str, int]:
        """Instances of the user's classes, of watched ones, and of the most numerous others."""
        users = {t: n for t, n in self.counts.items() if t.__name__ in watched or is_user_type(t)}
        others = {t: n for t, n in self.counts.items() if package_and_name(t)[0] != "ramledger"}
        chosen = dict(Counter(users).most_common(MAX_USER_CLASSES))
        chosen |= dict(Counter(others).most_common(MAX_COUNTS))
        chosen |= {kind: n for kind, n in others.items() if array_kind(kind) == "torch"}
        return {type_name(kind): count for kind, count in chosen.items()}


def take_census(*, arrays: bool = True) -> Census:
    """Count everything alive now, and find every array. Safe while other threads run.

    Without `arrays` nothing is sized and only tensors are found, at a fraction of the cost.
    """
    objects = gc.get_objects()
    census = Census(tracked=len(objects))
    census.counts = Counter(map(type, objects))
    census.addresses = sorted(map(id, objects[:: max(1, len(objects) // ADDRESS_SAMPLE)]))
    _collect_known(objects, census)
    if arrays:
        _size_types(objects, census)
        _collect_arrays(objects, census)
    return census


def _size_types(objects: list[Any], census: Census) -> None:
    """Mean size by type: exact for types with few instances, sampled for the others."""
    rare = {kind for kind, count in census.counts.items() if count <= EXACT_UP_TO}
    totals: Counter[type] = Counter()
    counted: Counter[type] = Counter()
    sample = objects[:: max(1, len(objects) // SIZE_SAMPLE)]
    for measured in (
        [obj for obj in objects if type(obj) in rare],
        [obj for obj in sample if type(obj) not in rare],
    ):
        for obj in measured:
            kind = type(obj)
            size = size_of(obj)
            if kind in rare or size < LARGE_BYTES:  # one giant must not stand for many
                totals[kind] += size
                counted[kind] += 1
    for kind in census.counts:
        n = counted[kind]
        census.mean_bytes[kind] = totals[kind] / n if n else float(kind.__basicsize__)


def _collect_known(objects: list[Any], census: Census) -> None:
    wanted = {kind for kind in census.counts if role_of(kind) is not None}
    tensors = {kind for kind in census.counts if array_kind(kind) == "torch"}
    users = {kind for kind in census.counts if is_user_type(kind)} - wanted
    known = wanted | tensors | users
    instances = [obj for obj in objects if type(obj) in known] if known else []
    census.recognized = [obj for obj in instances if type(obj) in wanted]
    census.of_user_classes = [obj for obj in instances if type(obj) in users][:MAX_OF_USERS]
    if tensors:
        found = [obj for obj in instances if type(obj) in tensors]
        storages: set[int] = set()
        for tensor in found[:MAX_TENSORS]:
            _count_tensor(tensor, census, storages)
        census.graph_tensors = sum(map(has_graph, found[:MAX_TENSORS]))


def _count_tensor(tensor: Any, census: Census, storages: set[int]) -> None:
    storage = storage_of(tensor)
    census.array_counts[type(tensor)] += 1
    if storage is None or storage.address is None or storage.address in storages:
        return
    storages.add(storage.address)
    census.array_bytes[type(tensor)] += storage.reserved_bytes
    if storage.reserved_bytes >= LARGE_BYTES:
        census.large_arrays.append(tensor)


def has_graph(tensor: Any) -> bool:
    """Whether a tensor still carries the graph that made it."""
    try:
        return tensor.grad_fn is not None
    except Exception:
        return False


def _collect_arrays(objects: list[Any], census: Census) -> None:
    """Arrays are reached through what refers to them; many containers of arrays are untracked."""
    search = _ArraySearch(census)
    # since 3.11 a running frame is no gc object: what only a local holds is seen here
    search.look_deep([v for f in running_frames() for _, v in frame_locals(f)])
    for start in range(0, len(objects), CHUNK):
        search.look_deep(gc.get_referents(*objects[start : start + CHUNK]))


class _ArraySearch:
    """Finds arrays among referents, each counted once, at a few tens of nanoseconds an object."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self._arrays = frozenset(untracked_array_types(census.counts))
        self._wanted = self._arrays | {dict, tuple}
        self._seen_shared: set[int] = set()

    def look_deep(self, referents: list[Any]) -> None:
        """Count arrays in `referents` and in the untracked containers among them."""
        while referents:  # an untracked dict or tuple is in no cycle: this ends
            hidden = self.look(referents)
            referents = gc.get_referents(*hidden) if hidden else []

    def look(self, referents: list[Any]) -> list[Any]:
        """Count the arrays in `referents`; return containers that gc does not track."""
        wanted = self._wanted
        found = [obj for obj in referents if type(obj) in wanted]
        for kind in self._arrays.intersection(map(type, found)):
            self._count(kind, [obj for obj in found if type(obj) is kind])
        is_tracked = gc.is_tracked
        return [obj for obj in found if type(obj) in _HIDING and not is_tracked(obj) and obj]

    def _count(self, kind: type, arrays: list[Any]) -> None:
        arrays = self._once(arrays)
        census, framework = self._census, array_kind(kind)
        if framework == "numpy":
            sizes = list(map(kind.nbytes.__get__, arrays))  # type: ignore[attr-defined]
            views = [a for a in arrays if a.base is not None]
            owned = sum(sizes) - sum(map(kind.nbytes.__get__, views))  # type: ignore[attr-defined]
            # a small view of a large block keeps all of it alive
            large = [a for a, size in zip(arrays, sizes, strict=True) if size >= LARGE_BYTES]
            large += views
        else:
            sizes = list(map(quick_bytes, arrays))
            owned = sum(sizes)
            large = [a for a, size in zip(arrays, sizes, strict=True) if size >= LARGE_BYTES]
        census.array_counts[kind] += len(arrays)
        census.array_bytes[kind] += owned
        census.large_arrays += large[: max(0, MAX_LARGE - len(census.large_arrays))]

    def _once(self, arrays: list[Any]) -> list[Any]:
        """Each array once. Only arrays with several holders are remembered across chunks."""
        unique = list({id(array): array for array in arrays}.values())
        counts = map(sys.getrefcount, unique)
        shared = [a for a, count in zip(unique, counts, strict=True) if count > _ONE_HOLDER]
        if not shared:
            return unique
        again = {id(a) for a in shared if id(a) in self._seen_shared}
        if len(self._seen_shared) < MAX_SHARED:
            self._seen_shared.update(map(id, shared))
        return [a for a in unique if id(a) not in again] if again else unique
