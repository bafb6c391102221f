"""What a long container holds, from runs of consecutive elements: constant cost, any length.

A list of a million transitions is not walked: 16 runs of 32 neighbors are, and the mean is scaled
by the length. Neighbors, because transitions share observations with the next one; an object
that several runs reach is shared by all and counted once. Large arrays are all collected.
"""

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ramledger.inside.attributes import (
    OPAQUE_TYPES,
    container_kind,
    elements,
    is_class,
    let_go,
)
from ramledger.inside.recognize import role_of
from ramledger.inside.storage import LARGE_BYTES, array_kind, has_graph, storage_of
from ramledger.inside.typenames import type_name

RUNS = 16
RUN_LENGTH = 32
SUMMED_ALIKE = 2
MAX_DEPTH = 4
MAX_RUN_OBJECTS = 1_000
CHUNK = 20_000
ADDRESSES = 1_000
SMALL_OBJECT_BYTES = 512  # pymalloc's limit; larger bodies come from malloc
GC_HEADER_BYTES = 16  # PyGC_Head, before every gc-tracked object
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes made by a class statement


@dataclass(slots=True)
class BulkSum:
    """What the elements of one container hold, all together."""

    element_type: str = ""
    objects: int = 0
    python_bytes: int = 0
    native_bytes: int = 0  # large object bodies and small arrays
    large_arrays: list[Any] = field(default_factory=list)
    recognized: list[Any] = field(default_factory=list)
    kinds: set[type] = field(default_factory=set)  # what is summed here, by sample

    @property
    def total_bytes(self) -> int:
        located = sum(s.reserved_bytes for a in self.large_arrays if (s := storage_of(a)))
        return located + self.python_bytes + self.native_bytes


@dataclass(slots=True)
class _RunSum:
    """One run of neighbors, each object once; `ids` tells what other runs reach too."""

    ids: dict[int, tuple[int, bool]] = field(default_factory=dict)  # id -> bytes, is small
    kinds: set[type] = field(default_factory=set)
    elements: int = 0
    has_large_arrays: bool = False
    has_recognized: bool = False


class LikeOthers:
    """Sums containers; of many at the same path, such as the lists in a dictionary, only some.

    The others are taken to be like them, element by element, unless they hold large arrays.
    """

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[int, BulkSum]]] = {}

    def sum(self, container: Any, length: int, path: str) -> BulkSum:
        """What the elements of a long container hold."""
        known = self._known.setdefault(path, [])
        if len(known) < SUMMED_ALIKE:
            found = sum_container(container)
            if not found.large_arrays and not found.recognized:
                known.append((length, found))
            return found
        share = length / sum(count for count, _ in known)
        sums = [found for _, found in known]
        return BulkSum(
            sums[0].element_type,
            round(share * sum(found.objects for found in sums)),
            round(share * sum(found.python_bytes for found in sums)),
            round(share * sum(found.native_bytes for found in sums)),
        )


def size_of(obj: Any) -> int:
    """Bytes of the object itself, allocator rounding included; user `__sizeof__` is not called."""
    kind = type(obj)
    if has_dict_of_its_own(kind):
        return size_with_header(kind)
    try:
        size = sys.getsizeof(obj)
    except Exception:  # a C type with a broken __sizeof__ must not break a snapshot
        return 0
    return (size + 15) & ~15


def has_dict_of_its_own(kind: type) -> bool:
    """Whether it is a class made by a class statement, with attributes in a dictionary."""
    return kind.__dictoffset__ != 0 and kind.__flags__ & _HEAP_TYPE != 0


def size_with_header(kind: type) -> int:
    """What a gc-tracked instance takes of the allocator, where all have the same size."""
    return (kind.__basicsize__ + GC_HEADER_BYTES + 15) & ~15


def sum_container(container: Any) -> BulkSum:
    """Estimate what the elements of a long container hold; large arrays are exact."""
    found = _sum_level(elements(container))
    if issubclass(type(container), dict):
        keys = _sum_level(_keys(container))
        if keys.total_bytes > found.total_bytes:
            found.element_type = keys.element_type
        found.objects += keys.objects
        found.python_bytes += keys.python_bytes
        found.native_bytes += keys.native_bytes
        found.kinds |= keys.kinds
        found.large_arrays += keys.large_arrays
        found.recognized += keys.recognized
    return found


def _keys(container: dict[Any, Any]) -> list[Any]:
    for _ in range(5):
        try:
            return list(dict.keys(container))
        except RuntimeError:  # changed size during iteration: another thread is at work
            continue
    return []


def _sum_level(level: list[Any]) -> BulkSum:
    found = BulkSum()
    if not level:
        return found
    step = max(1, len(level) // RUNS)
    starts = range(0, len(level), step)
    common = Counter(map(type, level[::step]))
    found.element_type = type_name(common.most_common(1)[0][0])
    runs = [_sum_run(level[start : start + RUN_LENGTH]) for start in starts]
    _scale(runs, len(level) / sum(run.elements for run in runs), found)
    if any(run.has_large_arrays or run.has_recognized for run in runs):
        _collect_all(level, found)
    let_go(level)
    return found


def small_addresses(container: Any) -> list[int]:
    """Where some of the elements live that are in CPython's arenas, spread over the container.

    Numbers and bytes are in no census: without these, arenas of theirs alone would have no name.
    """
    kind = container_kind(type(container))
    if kind is not list and kind is not tuple:
        return []
    indexed: Any = kind
    step = max(1, indexed.__len__(container) // ADDRESSES)
    chosen = indexed.__getitem__(container, slice(None, None, step))
    return [id(obj) for obj in chosen if size_of(obj) <= SMALL_OBJECT_BYTES]


def share_with_graph(container: Any) -> float:
    """Of a container's elements, the share that are tensors with the graph that made them."""
    level = elements(container)
    some = level[:: max(1, len(level) // RUNS)]
    let_go(level)
    found = sum(array_kind(type(one)) == "torch" and has_graph(one) for one in some)
    return found / len(some) if some else 0.0


def _sum_run(run: list[Any]) -> _RunSum:
    result = _RunSum()
    for element in run:
        level = [element]
        for _ in range(MAX_DEPTH):
            below: list[Any] = []
            for obj in level:
                if id(obj) not in result.ids and not is_class(obj):
                    _sum_object(obj, result, below)
            if not below or len(result.ids) > 4 * MAX_RUN_OBJECTS:
                break
            level = gc.get_referents(*below)
        result.elements += 1
        if len(result.ids) > MAX_RUN_OBJECTS:
            break
    return result


def _sum_object(obj: Any, result: _RunSum, below: list[Any]) -> None:
    kind = type(obj)
    if array_kind(kind):
        size = quick_bytes(obj)
        result.has_large_arrays |= size >= LARGE_BYTES
        size = 0 if size >= LARGE_BYTES else size
        result.ids[id(obj)] = (size, False)
        result.ids[~id(obj)] = (kind.__basicsize__, True)  # the header beside the data
        return
    size = size_of(obj)
    result.ids[id(obj)] = (size, size <= SMALL_OBJECT_BYTES)
    result.kinds.add(kind)
    if role_of(kind) is not None:
        result.has_recognized = True
    elif kind not in OPAQUE_TYPES:
        below.append(obj)


def _scale(runs: list[_RunSum], scale: float, found: BulkSum) -> None:
    times: Counter[int] = Counter()
    for run in runs:
        times.update(run.ids.keys())
        found.kinds |= run.kinds
    shared_by_all = {obj for obj, count in times.items() if count > 1}
    for run in runs:
        for obj, (size, small) in run.ids.items():
            if obj in shared_by_all:
                continue
            found.objects += 1
            if small:
                found.python_bytes += size
            else:
                found.native_bytes += size
    found.objects = int(found.objects * scale)
    found.python_bytes = int(found.python_bytes * scale)
    found.native_bytes = int(found.native_bytes * scale)


def _collect_all(level: list[Any], found: BulkSum) -> None:
    """All large arrays and known objects, level by level, in chunks; each has ≥ 64 KiB of RAM."""
    seen: set[int] = set()
    for chunk in _chunks(level):
        layer = chunk
        for _ in range(MAX_DEPTH):
            layer = _collect_layer(layer, found, seen)
            if not layer:
                break


def _collect_layer(layer: list[Any], found: BulkSum, seen: set[int]) -> list[Any]:
    kinds = set(map(type, layer))
    arrays = {kind for kind in kinds if array_kind(kind)}
    special = {kind for kind in kinds if role_of(kind) is not None}
    leaves = arrays | special | (kinds & OPAQUE_TYPES)
    for array in [obj for obj in layer if type(obj) in arrays] if arrays else ():
        if quick_bytes(array) >= LARGE_BYTES and id(array) not in seen:
            seen.add(id(array))
            found.large_arrays.append(array)
    if special:
        found.recognized += [obj for obj in layer if type(obj) in special]
    inner = [obj for obj in layer if type(obj) not in leaves and not is_class(obj)]
    return gc.get_referents(*inner) if inner else []


def _chunks(level: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(level), CHUNK):
        yield level[start : start + CHUNK]


def quick_bytes(array: Any) -> int:
    """Bytes an array keeps alive, without building a Storage where it owns its memory."""
    framework = array_kind(type(array))
    if framework == "bytes":
        return len(array)
    if framework == "numpy" and array.base is None:
        return int(array.nbytes)
    storage = storage_of(array)
    return storage.reserved_bytes if storage else 0
