"""Estimates what a long container holds, from runs of consecutive elements, at a constant cost.

Of a list of a million transitions, 16 runs of 32 neighbors are walked, and the mean is scaled by
the length. Neighbors, because a transition shares observations with the next one. An object that
several runs reach counts as shared by all elements, once. Large arrays are found exactly.
"""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ramledger.interpreter.array_storage import (
    LARGE_BYTES,
    array_kind,
    bytes_beside_data,
    numpy_array,
    storage_of,
)
from ramledger.interpreter.attributes import (
    container_kind,
    container_length,
    elements,
    is_class,
    is_opaque,
    let_go,
    own_fields,
    slices,
)
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.object_sizes import SMALL_OBJECT_BYTES, has_large_body, size_of
from ramledger.interpreter.tensor_fields import has_graph
from ramledger.interpreter.type_facts import basic_size, short, type_name
from ramledger.objects.aligned_containers import AlignedContainers
from ramledger.objects.names.name_bearers import bears_name
from ramledger.objects.names.paths import Path
from ramledger.objects.roles import role_of

RUNS = 16
RUN_LENGTH = 32
_FIRST_EVERY = 4  # of the runs, one in four is read first: often all are alike
_ALIKE = 0.05
SUMMED_ALIKE = 2
MAX_DEPTH = 4
MAX_RUN_OBJECTS = 1_000
MAX_INNER = 256  # elements of an inner container that are read and represent the others
MAX_LARGE_ARRAYS = 50_000
MAX_COPIED = (
    100_000  # elements of a dictionary, a set or a deque; of longer ones, both ends are read
)
CHUNK = 5_000
REFERENTS = 20_000
MAX_REMEMBERED = 100_000  # objects whose referents were read: they are not read again
ADDRESSES = 250


@dataclass(slots=True)
class ContainerSum:
    """What all elements of one container hold."""

    element_type: str = ""
    element_kind: type | None = None
    objects: int = 0
    python_bytes: int = 0
    native_bytes: int = 0  # large object bodies and small arrays
    large_arrays: list[Any] = field(default_factory=list)
    recognized: list[Any] = field(default_factory=list)
    has_special: bool = False  # large arrays or known objects are among them
    kinds: dict[int, type] = field(default_factory=dict)  # types of the sampled elements
    graph_share: float = 0.0  # of its elements that are tensors with an autograd graph
    fields: dict[str, "ContainerSum"] = field(default_factory=dict)  # of elements with a name

    @property
    def plain_bytes(self) -> int:
        """All of it but large arrays and known objects."""
        return (
            self.python_bytes
            + self.native_bytes
            + sum(part.plain_bytes for part in self.fields.values())
        )


@dataclass(slots=True)
class _RunSum:
    """One run of neighbors, each object once; `ids` shows which objects other runs reach, too."""

    ids: dict[int, tuple[float, bool, float]] = field(default_factory=dict)  # bytes, small, weight
    kinds: dict[int, type] = field(default_factory=dict)
    elements: int = 0
    has_special: bool = False


class SimilarContainers:
    """Estimates containers; of many at one path, such as the lists in a dictionary, only the first.

    The others count as equal to them per element, unless those hold large arrays.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._known: dict[Path, list[tuple[int, ContainerSum]]] = {}
        self._allowance = allowance
        self._aligned = AlignedContainers()

    def close(self) -> None:
        """Let go of the containers."""
        self._aligned.clear()

    def sum(self, container: Any, length: int, path: Path) -> ContainerSum:
        """What the elements of a long container hold; nothing where an earlier one holds them."""
        known = self._known.setdefault(path, [])
        if len(known) < SUMMED_ALIKE:
            if self._aligned.repeats(container, length):
                return ContainerSum()
            found = sum_container(container, self._allowance)
            parts = (found, *found.fields.values())
            if not any(part.large_arrays or part.recognized for part in parts):
                known.append((length, found))
            return found
        share = length / sum(count for count, _ in known)
        sums = [found for _, found in known]
        return ContainerSum(
            sums[0].element_type,
            sums[0].element_kind,
            round(share * sum(found.objects for found in sums)),
            round(share * sum(found.python_bytes for found in sums)),
            round(share * sum(found.native_bytes for found in sums)),
            graph_share=sums[0].graph_share,
            fields=_scaled_fields(sums, share),
        )


def sum_container(container: Any, allowance: Allowance) -> ContainerSum:
    """Estimate what the elements of a long container hold; large arrays are exact."""
    length = container_length(container) or 0
    runs = _runs(container, length)
    if runs and bears_name(commonest([type(run[0]) for run in runs])):
        return _sum_by_field(container, runs, length, allowance)
    found = _sum_runs(runs, length)
    if found.has_special:
        _collect_all(slices(container, CHUNK), length, found, allowance)
    if issubclass(type(container), dict):
        keys = _sum_runs(_cut(_first(dict.keys, container, MAX_COPIED)), length)
        if keys.has_special:
            _collect_all(slices(container, CHUNK, keys=True), length, keys, allowance)
        _add_keys(keys, found)
    return found


def _sum_by_field(
    container: Any, runs: list[list[Any]], length: int, allowance: Allowance
) -> ContainerSum:
    """What elements with a name of their own hold, by attribute, as if each were walked."""
    firsts = [run[0] for run in runs]
    found = ContainerSum(element_kind=(kind := commonest(list(map(type, firsts)))))
    found.element_type, found.kinds = type_name(kind), {id(kind): kind}
    found.objects, found.python_bytes = length, length * size_of(firsts[0])
    for name in dict.fromkeys(name for one in firsts for name in own_fields(one)):
        values = [[own_fields(one).get(name) for one in run] for run in runs]
        part = _sum_runs(values, length)
        if part.has_special:
            everything = (
                [own_fields(one).get(name) for one in cut] for cut in slices(container, CHUNK)
            )
            _collect_all(everything, length, part, allowance)
        if part.objects or part.large_arrays or part.recognized:
            found.fields[f".{short(name)}"] = part
            found.kinds |= part.kinds
    return found


def _scaled_fields(sums: list[ContainerSum], share: float) -> dict[str, ContainerSum]:
    found: dict[str, ContainerSum] = {}
    for one in sums:
        for name, part in one.fields.items():
            into = found.setdefault(name, ContainerSum())
            into.objects += round(share * part.objects)
            into.python_bytes += round(share * part.python_bytes)
            into.native_bytes += round(share * part.native_bytes)
    return found


def _add_keys(keys: ContainerSum, found: ContainerSum) -> None:
    if not found.has_special and keys.plain_bytes > found.plain_bytes:
        found.element_type, found.element_kind = keys.element_type, keys.element_kind
    found.objects += keys.objects
    found.python_bytes += keys.python_bytes
    found.native_bytes += keys.native_bytes
    found.kinds |= keys.kinds
    found.large_arrays += keys.large_arrays
    found.recognized += keys.recognized


def _runs(container: Any, length: int) -> list[list[Any]]:
    """Runs of neighbors, spread over a container, without copying the whole container."""
    builtin: Any = container_kind(type(container))
    if builtin is list or builtin is tuple:
        found = [list(builtin.__getitem__(container, cut)) for cut in _cuts(length)]
        return [run for run in found if run]
    if length <= MAX_COPIED:
        return _cut(elements(container, MAX_COPIED))
    some = RUNS // 2 * RUN_LENGTH
    found = _cut(elements(container, some))
    if builtin is dict:
        found += _cut(_first(lambda obj: reversed(dict.values(obj)), container, some))
    elif builtin is not set and builtin is not frozenset:
        found += _cut(_first(builtin.__reversed__, container, some))
    return found


def _first(make: Any, container: Any, most: int) -> list[Any]:
    for _ in range(5):
        try:
            return list(islice(make(container), most))
        except RuntimeError:  # changed size during iteration: another thread changed it
            continue
    return []


def _cuts(length: int) -> list[slice]:
    """Runs never overlap: an object that two runs contain counts as shared by all elements."""
    step = max(RUN_LENGTH, length // RUNS)
    return [slice(start, start + RUN_LENGTH) for start in range(0, length, step)]


def _cut(level: list[Any]) -> list[list[Any]]:
    found = [level[cut] for cut in _cuts(len(level))]
    let_go(level)
    return found


def _sum_runs(runs: list[list[Any]], length: int) -> ContainerSum:
    found = ContainerSum()
    firsts = [run[0] for run in runs]
    if not firsts:
        return found
    found.element_kind = commonest(list(map(type, firsts)))
    found.element_type = type_name(found.element_kind)
    graphs = sum(array_kind(type(one)) == "torch" and has_graph(one) for one in firsts)
    found.graph_share = graphs / len(firsts)
    sums = [_sum_run(run) for run in runs[::_FIRST_EVERY]]
    if not _are_alike(sums):
        others = [run for number, run in enumerate(runs) if number % _FIRST_EVERY]
        sums += [_sum_run(run) for run in others]
    _scale(sums, length / max(1, sum(run.elements for run in sums)), found)
    found.has_special = any(run.has_special for run in sums)
    return found


def _are_alike(runs: list[_RunSum]) -> bool:
    """Whether elements of all these runs hold about the same, so that further runs tell nothing."""
    means = [sum(size for size, _, _ in run.ids.values()) / max(1, run.elements) for run in runs]
    return len(runs) > 1 and max(means) - min(means) <= _ALIKE * max(means)


def commonest(kinds: list[type]) -> type:
    """The most frequent type."""
    counts = Counter(map(id, kinds))
    # not most_common(): that imports a module, and so lets other threads run
    identity = max(counts, key=counts.__getitem__)
    return next(kind for kind in kinds if id(kind) == identity)


def small_addresses(container: Any) -> list[int]:
    """Addresses of some small elements, spread over the container.

    The garbage collector does not track numbers and bytes: without these addresses, arenas that
    contain nothing else would stay unexplained.
    """
    kind = container_kind(type(container))
    if kind is not list and kind is not tuple:
        return []
    indexed: Any = kind
    step = max(1, indexed.__len__(container) // ADDRESSES)
    chosen = indexed.__getitem__(container, slice(None, None, step))
    return [id(obj) for obj in chosen if size_of(obj) <= SMALL_OBJECT_BYTES]


def _sum_run(run: list[Any]) -> _RunSum:
    result = _RunSum()
    for element in run:
        level: list[tuple[float, list[Any]]] = [(1.0, [element])]
        for _ in range(MAX_DEPTH):
            level = [
                below
                for weight, objects in level
                for below in _sum_objects(objects, weight, result)
            ]
            if not level or len(result.ids) > 4 * MAX_RUN_OBJECTS:
                break
        result.elements += 1
        if len(result.ids) > MAX_RUN_OBJECTS:
            break
    return result


def _sum_objects(
    objects: list[Any], weight: float, result: _RunSum
) -> Iterator[tuple[float, list[Any]]]:
    """Add objects to a run; yields their referents, with how many objects each represents."""
    step = -(-len(objects) // MAX_RUN_OBJECTS)
    if step > 1:
        objects, weight = objects[::step], weight * step
    short: list[Any] = []
    for obj in objects:
        if id(obj) in result.ids or is_class(obj) or not _sum_object(obj, weight, result):
            continue
        length = container_length(obj)
        if length is not None and length > MAX_INNER:
            inner = _some_elements(obj, length)
            if inner:
                yield weight * length / len(inner), inner
        elif length is not None or not has_large_body(obj):
            short.append(obj)
    if short:
        yield weight, gc.get_referents(*short)


def _some_elements(obj: Any, length: int) -> list[Any]:
    """Elements that represent a container, spread over it where that is cheap."""
    builtin: Any = container_kind(type(obj))
    if builtin is list or builtin is tuple:
        return list(builtin.__getitem__(obj, slice(None, None, -(-length // MAX_INNER))))
    return elements(obj, MAX_INNER)


def _sum_object(obj: Any, weight: float, result: _RunSum) -> bool:
    """Count one object; returns whether its referents should be counted."""
    kind = type(obj)
    if array_kind(kind):
        size = quick_bytes(obj)
        result.has_special |= size >= LARGE_BYTES
        is_small = 0 < size < LARGE_BYTES
        size = size + bytes_beside_data(obj) if is_small else 0
        result.ids[id(obj)] = (size * weight, False, weight)
        if is_small:  # the header beside the data
            result.ids[~id(obj)] = (basic_size(kind) * weight, True, weight)
        return False
    size = size_of(obj)
    result.ids[id(obj)] = (size * weight, size <= SMALL_OBJECT_BYTES, weight)
    result.kinds[id(kind)] = kind
    if role_of(kind) is not None:
        result.has_special = True
        return False
    return not is_opaque(kind)


def _scale(runs: list[_RunSum], scale: float, found: ContainerSum) -> None:
    times: Counter[int] = Counter()
    for run in runs:
        times.update(run.ids.keys())
        found.kinds |= run.kinds
    objects = python_bytes = native_bytes = 0.0
    for run in runs:
        for obj, (size, small, weight) in run.ids.items():
            if times[obj] > 1:  # shared by all elements
                continue
            objects += weight
            if small:
                python_bytes += size
            else:
                native_bytes += size
    found.objects = int(objects * scale)
    found.python_bytes = int(python_bytes * scale)
    found.native_bytes = int(native_bytes * scale)


def _collect_all(
    parts: Iterable[list[Any]], length: int, found: ContainerSum, allowance: Allowance
) -> None:
    """Find all large arrays and known objects, part by part."""
    seen: set[int] = set()
    done = 0
    for part in parts:
        done += len(part)
        _collect(part, MAX_DEPTH, found, seen, {})
        if allowance.is_spent() or len(seen) >= MAX_LARGE_ARRAYS:
            break
    if 0 < done < length and len(seen) >= MAX_LARGE_ARRAYS:
        located = sum(quick_bytes(array) for array in found.large_arrays)
        found.native_bytes += int(
            located * (length - done) / done
        )  # the others count as equal to these


def _collect(
    layer: list[Any], depth: int, found: ContainerSum, seen: set[int], entered: dict[int, int]
) -> None:
    """Read a layer of objects and those below it.

    `entered` has the objects whose referents were read, and how deep: in a graph with many paths
    to an object, each path would read it again.
    """
    kinds = {id(kind): kind for kind in map(type, layer)}
    arrays = {key for key, kind in kinds.items() if array_kind(kind)}
    special = {key for key, kind in kinds.items() if role_of(kind) is not None}
    leaves = arrays | special | {key for key, kind in kinds.items() if is_opaque(kind)}
    for array in [obj for obj in layer if id(type(obj)) in arrays] if arrays else ():
        if quick_bytes(array) >= LARGE_BYTES and id(array) not in seen:
            seen.add(id(array))
            found.large_arrays.append(array)
    for known in [obj for obj in layer if id(type(obj)) in special] if special else ():
        if id(known) not in seen:
            seen.add(id(known))
            found.recognized.append(known)
    if depth > 1:
        inner = {
            id(obj): obj
            for obj in layer
            if id(type(obj)) not in leaves and entered.get(id(obj), 0) < depth and not is_class(obj)
        }
        if len(entered) + len(inner) > MAX_REMEMBERED:
            entered.clear()
        entered.update(dict.fromkeys(islice(inner, MAX_REMEMBERED), depth))
        for some, _ in holders(inner.values()):
            if len(seen) < MAX_LARGE_ARRAYS:
                _collect(gc.get_referents(*some), depth - 1, found, seen, entered)


def holders(objects: Iterable[Any]) -> Iterator[tuple[list[Any], int]]:
    """Lists of objects with a bounded number of referents; long containers come as slices.

    Also, how many more references each referent has because of that: one if it is in a slice.
    """
    short: list[Any] = []
    total = 0
    for obj in objects:
        length = container_length(obj)
        if length is None:
            if not has_large_body(obj):
                short.append(obj)
                total += 1
        elif length > REFERENTS:
            for part in slices(obj, REFERENTS):
                yield [part], 1
        else:
            short.append(obj)
            total += length
        if total > REFERENTS:
            yield short, 0
            short, total = [], 0
    if short:
        yield short, 0


def quick_bytes(array: Any) -> int:
    """Bytes that an array keeps alive; no Storage is made if it owns its memory."""
    framework = array_kind(type(array))
    if framework == "bytes":
        return len(array)
    if framework == "numpy":
        ndarray = numpy_array()
        if ndarray.base.__get__(array) is None:
            return int(ndarray.nbytes.__get__(array))
    storage = storage_of(array)
    return storage.reserved_bytes if storage else 0
