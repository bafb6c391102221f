"""Replay buffers that people write themselves, recognized by what they hold.

Each transition ends with the observation that the next one begins with. That holds for a deque of
tuples, of dictionaries or of a class of the user's, whatever they are called.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, dropwhile
from typing import Any

from ramledger.interpreter.array_bytes import MOST_BYTES, ArrayBytes, array_bytes
from ramledger.interpreter.attributes import container_kind, instance_dict, own_fields
from ramledger.interpreter.own_memory import OwnMemory
from ramledger.interpreter.type_facts import bare_name, namespace_of, package_and_name, short

LEAST_LENGTH = 32
_FIELDS = (3, 12)  # of a transition, at least and at most
_RUNS, _RUN_LENGTH = 3, 24
_MOST_ENVS = 16  # environments whose steps may be stored in turn
_LEAST_MATCHES = 6
_MOST_MOVED = 16  # rows by which one window follows another
_WINDOWS_COMPARED = 6
_MOST = 0.75
_FLOATS = {"float32": "f", "float64": "d"}
_IMAGE_SIDE, _MOST_BYTE = 16, 255
_PIECE = 1 << 16

Fingerprint = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FieldContent:
    """One field of a transition, as its values in the sample are."""

    name: str
    kind: (
        str  # "observation", "next observation", "flag", "number", "whole number", "array", "other"
    )
    shape: tuple[int, ...] = ()
    dtype: str = ""
    bytes: int = 0  # of the data of one value
    is_whole: bool = True  # else it is the largest array of a tuple or a dictionary


@dataclass(frozen=True, slots=True)
class TransitionContent:
    """What the transitions of one buffer consist of."""

    element: str  # "tuple", "dict", "arrays" or the name of a class
    fields: tuple[FieldContent, ...]
    stored_twice: float  # share of the observations that are stored as the next one of a step, too
    breaks: float  # share of the steps after which something else begins, such as an episode
    moved_rows: int = 0  # by which each observation follows the one before; 0: they do not overlap
    axis: int = 0  # along which they overlap: 0, the first with a length, or -1, the last
    fits_bytes: bool = False  # images as floats, whose values are whole numbers from 0 to 255


@dataclass(slots=True)
class _Pair:
    """Two fields of a transition, if the second is the first of the step `distance` later."""

    first: str
    second: str
    distance: int
    matches: int = 0
    probes: int = 0
    apart: int = 0  # matches that are in different memory


def transition_content(container: Any, length: int) -> TransitionContent | None:
    """What a container of transitions holds; None where it holds something else."""
    runs = _neighbors(container, length)
    rows = [[_fields(one) for one in run] for run in runs]
    names = _common_names(rows)
    if not _FIELDS[0] <= len(names) <= _FIELDS[1]:
        return None
    arrays = [[{n: a for n in names if (a := _largest(row[n]))} for row in run] for run in rows]
    alike = _alike(names, (row for run in arrays for row in run))
    if not alike:
        return None
    with OwnMemory() as memory:
        pair = _best_pair(alike, arrays, memory)
        if pair is None:
            return None
        everywhere = [row for run in arrays for row in run]
        overlaps = _overlap(pair, everywhere, memory)
        fits = _fits_bytes(everywhere[0][pair.first], memory)
    fields = tuple(
        _described(name, pair, [row[name] for run in rows for row in run]) for name in names
    )
    return TransitionContent(
        bare_name(type(runs[0][0])),
        fields,
        pair.apart / pair.matches,
        1 - pair.matches / pair.probes,
        *overlaps,
        fits,
    )


def _neighbors(container: Any, length: int) -> list[list[Any]]:
    builtin: Any = container_kind(type(container))
    if builtin not in (list, tuple, deque) or length < LEAST_LENGTH:
        return []
    starts = {round(number * (length - _RUN_LENGTH) / (_RUNS - 1)) for number in range(_RUNS)}
    found = []
    for start in sorted(max(0, one) for one in starts):
        try:
            stop = min(start + _RUN_LENGTH, length)
            found.append([builtin.__getitem__(container, at) for at in range(start, stop)])
        except IndexError:  # another thread has shortened it
            continue
    return found


def _fields(element: Any) -> Mapping[str, Any]:
    """Parts of an element by name, or by number."""
    builtin: Any = container_kind(type(element))
    if builtin is dict:
        found = {
            short(k): v for k, v in list(dict.items(element))[: _FIELDS[1] + 1] if type(k) is str
        }
        return found
    if builtin is tuple or builtin is list:
        if builtin.__len__(element) > _FIELDS[1]:
            return {}
        parts = list(builtin.__iter__(element))
        names = namespace_of(type(element)).get("_fields")
        if type(names) is not tuple or len(names) != len(parts):
            names = range(len(parts))
        return {str(name): part for name, part in zip(names, parts, strict=True)}
    return own_fields(element) if builtin is None and instance_dict(element) is not None else {}


def _common_names(rows: list[list[Mapping[str, Any]]]) -> list[str]:
    everywhere = [row for run in rows for row in run]
    first = list(everywhere[0]) if everywhere else []
    return first if all(list(row) == first for row in everywhere) else []


def _largest(value: Any) -> ArrayBytes | None:
    """The array that a part is, or the largest of those in a tuple, a list or a dictionary."""
    builtin: Any = container_kind(type(value))
    if builtin is None:
        return array_bytes(value)
    if builtin not in (tuple, list, dict) or not 0 < builtin.__len__(value) <= _FIELDS[1]:
        return None
    parts = dict.values(value) if builtin is dict else builtin.__iter__(value)
    found = [one for part in list(parts) if (one := array_bytes(part)) is not None]
    return max(found, key=lambda one: one.size_bytes, default=None)


def _alike(names: list[str], rows: Iterable[Mapping[str, ArrayBytes]]) -> list[tuple[str, str]]:
    """Pairs of fields that have the same shape and dtype in each element; the first come first."""
    found = list(combinations(names, 2))
    for row in rows:
        found = [
            (one, two)
            for one, two in found
            if one in row and two in row and row[one].is_like(row[two]) and row[one].size_bytes > 1
        ]
    return found


def _best_pair(
    alike: list[tuple[str, str]], runs: list[list[dict[str, ArrayBytes]]], memory: OwnMemory
) -> _Pair | None:
    names = {name for pair in alike for name in pair}
    printed = [
        [{name: row[name].fingerprint(memory) for name in names} for row in run] for run in runs
    ]
    pairs = [
        _counted(_Pair(one, two, distance), runs, printed)
        for a, b in alike
        for one, two in ((a, b), (b, a))
        for distance in range(1, _MOST_ENVS + 1)
    ]
    best = max(pairs, key=lambda pair: (pair.matches / max(1, pair.probes), -pair.distance))
    is_sure = best.matches >= _LEAST_MATCHES and 2 * best.matches >= best.probes
    different = {row[best.first] for run in printed for row in run}
    return best if is_sure and len(different) >= _LEAST_MATCHES else None


def _counted(
    pair: _Pair,
    runs: list[list[dict[str, ArrayBytes]]],
    printed: list[list[dict[str, Fingerprint]]],
) -> _Pair:
    for run, prints in zip(runs, printed, strict=True):
        for at in range(len(run) - pair.distance):
            ends, begins = prints[at][pair.second], prints[at + pair.distance][pair.first]
            pair.probes += 1
            if ends == begins:
                pair.matches += 1
                there, here = run[at][pair.second], run[at + pair.distance][pair.first]
                pair.apart += there.address != here.address
    return pair


def _overlap(pair: _Pair, rows: list[dict[str, ArrayBytes]], memory: OwnMemory) -> tuple[int, int]:
    """(rows, axis) by which the next observation of a step follows its observation."""
    votes: dict[tuple[int, int], int] = {}
    compared = 0
    for row in rows[:: max(1, len(rows) // _WINDOWS_COMPARED)]:
        before, after = row[pair.first], row[pair.second]
        if before.size_bytes > MOST_BYTES:
            return 0, 0
        old, new = before.read(memory), after.read(memory)
        if old == new:  # a picture that stands still tells nothing
            continue
        compared += 1
        for moved in _moves(before, old, new):
            votes[moved] = votes.get(moved, 0) + 1
    sure = [moved for moved, count in votes.items() if count >= _MOST * compared]
    return min(sure, default=(0, 0))


def _fits_bytes(image: ArrayBytes, memory: OwnMemory) -> bool:
    if image.dtype not in _FLOATS or sum(side >= _IMAGE_SIDE for side in image.shape) < 2:
        return False
    values = array(_FLOATS[image.dtype], memory.read(image.address, min(image.size_bytes, _PIECE)))
    return all(0 <= value <= _MOST_BYTE and value == int(value) for value in values) and (
        max(values) > 1
    )


def _moves(image: ArrayBytes, old: bytes, new: bytes) -> Iterable[tuple[int, int]]:
    shape = tuple(dropwhile(lambda side: side == 1, image.shape))  # a batch of one
    if not shape:
        return
    rows, depth = shape[0], shape[-1]
    row_bytes = image.size_bytes // max(1, rows)
    for moved in range(1, min(_MOST_MOVED, rows // 2) + 1):
        start = moved * row_bytes
        is_likely = old[start : start + _PIECE] == new[: min(_PIECE, len(old) - start)]
        if is_likely and rows % moved == 0 and old[start:] == new[:-start]:
            yield moved, 0
    # images whose channels come last, one byte each
    if len(shape) == 3 and image.item_bytes == 1 and depth <= _MOST_MOVED:
        for moved in range(1, depth // 2 + 1):
            pairs = ((old[at + moved :: depth], new[at::depth]) for at in range(depth - moved))
            if depth % moved == 0 and all(one == other for one, other in pairs):
                yield moved, -1


def _described(name: str, pair: _Pair, values: list[Any]) -> FieldContent:
    found = _largest(values[0])
    if name in (pair.first, pair.second) and found is not None:
        kind = "observation" if name == pair.first else "next observation"
        is_whole = container_kind(type(values[0])) is None
        return FieldContent(name, kind, found.shape, found.dtype, found.size_bytes, is_whole)
    if found is not None:
        return FieldContent(name, "array", found.shape, found.dtype, found.size_bytes)
    kinds = {_number_kind(type(value)) for value in values}
    lengths = {_numbers_in(value) for value in values}
    if len(lengths) == 1 and 0 not in lengths:
        length = lengths.pop()
        return FieldContent(name, "array", (length,), "float32", 4 * length)
    if kinds == {"flag"} or (kinds <= {"flag", "whole number"} and _are_flags(values)):
        return FieldContent(name, "flag", bytes=1)
    for kind in ("whole number", "number"):
        if kinds <= {"whole number", kind}:
            return FieldContent(name, kind, bytes=8)
    return FieldContent(name, "other")


def _numbers_in(value: Any) -> int:
    """How many numbers a list or a tuple has, if it has nothing else."""
    if type(value) is not list and type(value) is not tuple:
        return 0
    return len(value) if all(type(one) in (int, float, bool) for one in value[: _FIELDS[1]]) else 0


def _number_kind(kind: type) -> str:
    if kind is bool or package_and_name(kind) in (("numpy", "bool"), ("numpy", "bool_")):
        return "flag"
    if kind is int:
        return "whole number"
    if kind is float:
        return "number"
    package, name = package_and_name(kind)
    if package == "numpy" and name.startswith(("int", "uint")):
        return "whole number"
    return "number" if package == "numpy" and name.startswith("float") else "other"


def _are_flags(values: list[Any]) -> bool:
    """Zeros and ones, which people write for done; all alike could be anything."""
    return {value for value in values if type(value) in (bool, int)} <= {0, 1}
