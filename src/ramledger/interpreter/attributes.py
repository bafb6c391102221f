"""What an object refers to, by attribute names, without running code of its class.

Properties, `__getattr__` and `__iter__` of user classes are never called: instance dictionaries
and slots are read through the interpreter's own descriptors, containers through the builtin type.
"""

import gc
import types
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ramledger.interpreter.arrow_buffers import arrow_children, is_arrow
from ramledger.interpreter.frames import OURS
from ramledger.interpreter.object_sizes import has_large_body
from ramledger.interpreter.type_facts import (
    ancestors,
    basic_size,
    bookkeeping_bytes,
    module_of,
    namespace_of,
    once_a_type,
    short,
)

Named = tuple[str, Any]

# types that never lead to the user's data, or that lead to the whole interpreter
_OPAQUE_TYPES: frozenset[int] = frozenset(
    map(id, {
        type(None), bool, int, float, complex, str, range, slice, type(...), type(NotImplemented),
        types.ModuleType, types.CodeType, types.BuiltinFunctionType, types.GetSetDescriptorType,
        types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
        types.ClassMethodDescriptorType, types.FrameType, types.TracebackType,
        types.GenericAlias, types.MethodWrapperType, property, classmethod, staticmethod,
    })
)  # fmt: skip

_LET_GO = 8_000  # references: 64 KB, below the smallest mmap threshold of malloc
_KEY_CHARACTERS = 40
_POINTER_BYTES = 8
_DICT_LABELS_UP_TO = 24  # larger dictionaries are data, not namespaces: one label for all values
_MOST_CHILDREN = (
    2_000  # of an object that is not a container: attributes, defaults, referents of C objects
)


def is_opaque(kind: type) -> bool:
    """Whether instances never hold anything of the user."""
    return id(kind) in _OPAQUE_TYPES


def instance_dict(obj: Any) -> dict[str, Any] | None:
    """`obj.__dict__` through the interpreter's descriptor; the class may have overridden it."""
    getter = _dict_getter(type(obj))
    if getter is None:
        return None
    try:
        found = getter.__get__(obj)
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None


def own_fields(obj: Any) -> dict[str, Any]:
    """Attributes of an instance by name, slots included."""
    found = dict(_attributes(obj))
    for name, member in _slots(type(obj)):
        try:
            found[name] = member.__get__(obj)
        except AttributeError:
            continue
    return found


def _attributes(obj: Any) -> list[Named]:
    """The entries of the instance's dictionary, at most the first thousands."""
    named = first_items(instance_dict(obj) or {}, _MOST_CHILDREN)
    return [(name, value) for name, value in named if type(name) is str]


def first_items(entries: Mapping[Any, Any], most: int) -> list[tuple[Any, Any]]:
    """The first entries of a dictionary or of a class's namespace, safe against other threads."""
    items: Any = dict.items if issubclass(type(entries), dict) else type(entries).items
    for _ in range(5):
        try:
            return list(islice(items(entries), most))
        except RuntimeError:  # changed size during iteration
            continue
    return []


@once_a_type
def _dict_getter(kind: type) -> Any:
    for ancestor in ancestors(kind):
        candidate = namespace_of(ancestor).get("__dict__")
        if type(candidate) is types.GetSetDescriptorType:
            return candidate
    return None


@once_a_type
def _slots(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, member)
        for ancestor in ancestors(kind)
        for name, member in list(namespace_of(ancestor).items())
        if type(member) is types.MemberDescriptorType and module_of(ancestor) != "builtins"
    )


@once_a_type
def _may_hide(kind: type) -> bool:
    """Whether instances have room for references that are neither attributes nor elements."""
    known = basic_size(object) + _POINTER_BYTES * len(_slots(kind)) + bookkeeping_bytes(kind)
    return container_kind(kind) is None and basic_size(kind) > known


def is_class(obj: Any) -> bool:
    """Whether `obj` is a class. Not isinstance: it reads `obj.__class__`, which may run code."""
    return issubclass(type(obj), type)


@once_a_type
def container_kind(kind: type) -> type | None:
    """The builtin container a type is or derives from."""
    for builtin in (list, dict, tuple, set, frozenset, deque):
        if issubclass(kind, builtin):
            return builtin
    return None


def container_length(obj: Any) -> int | None:
    """Length of a builtin container or subclass, by the builtin's `__len__`; None for others."""
    builtin: Any = container_kind(type(obj))
    if builtin is None:
        return None
    length: int = builtin.__len__(obj)
    return length


def let_go(objects: list[Any]) -> None:
    """Empty a long list in steps, so that no large block is freed at once.

    When glibc frees a mapped block, it serves blocks up to that size from its heap from then on
    (M_MMAP_THRESHOLD in mallopt(3)): our snapshot would change how the program's memory behaves.
    A list that shrinks returns its pages by mremap instead.
    """
    while objects:
        del objects[-_LET_GO:]


def slices(obj: Any, length: int, *, keys: bool = False) -> Iterator[list[Any]]:
    """All elements of a container, in parts; fewer if another thread changes it meanwhile."""
    builtin: Any = container_kind(type(obj))
    if builtin is list or builtin is tuple:
        for start in range(0, builtin.__len__(obj), length):
            yield list(builtin.__getitem__(obj, slice(start, start + length)))
        return
    is_values = builtin is dict and not keys
    iterator = iter(dict.values(obj)) if is_values else builtin.__iter__(obj)
    while True:
        try:
            found = list(islice(iterator, length))
        except RuntimeError:  # changed size during iteration
            return
        if not found:
            return
        yield found


def elements(obj: Any, most: int) -> list[Any]:
    """The first elements of a container (a dictionary's values), safe against other threads."""
    builtin: Any = container_kind(type(obj))
    for _ in range(5):
        try:
            if builtin is dict:
                return list(islice(dict.values(obj), most))
            if builtin is list or builtin is tuple:
                return list(builtin.__getitem__(obj, slice(most)))
            if builtin is not None:
                return list(islice(builtin.__iter__(obj), most))
        except RuntimeError:  # changed size during iteration: another thread changed it
            continue
    return []


def children(obj: Any, most: int = _MOST_CHILDREN, *, by_name: bool = True) -> Iterator[Named]:
    """(label, object) for what `obj` holds; labels are written as in Python source.

    Reading `__dict__` creates the dictionary if there was none, 64 bytes that stay. So for types
    with many instances, attributes are read without their names.
    """
    kind = type(obj)
    builtin = container_kind(kind)
    if builtin is dict:
        yield from _dict_children(obj, most)
    elif builtin is not None:
        for element in elements(obj, most):
            yield "[*]", element
    if kind is types.FunctionType:
        yield from _closure_children(obj)
    elif kind is types.MethodType:
        yield ".__self__", obj.__self__
    elif is_arrow(kind):
        yield from arrow_children(obj, most)
    else:
        yield from _instance_children(obj, by_name)


def _dict_children(obj: dict[Any, Any], most: int) -> Iterator[Named]:
    pairs = first_items(obj, most)
    named = len(pairs) <= _DICT_LABELS_UP_TO
    for key, value in pairs:
        yield (_key_label(key) if named else "[*]"), value
        if not is_opaque(type(key)):
            yield ".keys()", key


def _key_label(key: Any) -> str:
    if type(key) is str:
        return f"[{key[:_KEY_CHARACTERS]!r}]"
    return "[*]"  # numbered or keyed by objects: elements, not names


def _closure_children(function: Any) -> Iterator[Named]:
    is_ours = function.__code__.co_filename.startswith(OURS)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in () if is_ours else cells:
        try:
            yield f".{short(name)}", cell.cell_contents
        except ValueError:  # an empty cell
            continue
    for value in () if is_ours else (function.__defaults__ or ())[:_MOST_CHILDREN]:
        yield ".__defaults__", value
    wrapped = (instance_dict(function) or {}).get("__wrapped__")
    if wrapped is not None:
        yield "" if is_ours else ".__wrapped__", wrapped


def _instance_children(obj: Any, by_name: bool) -> Iterator[Named]:
    attributes = (instance_dict(obj) or {}) if by_name else {}
    named_ids = {id(attributes)}
    for name, value in first_items(attributes, _MOST_CHILDREN):
        if type(name) is not str:
            continue
        named_ids.add(id(value))
        yield f".{short(name)}", value
    for name, member in _slots(type(obj)):
        try:
            value = member.__get__(obj)
        except AttributeError:
            continue
        named_ids.add(id(value))
        yield f".{short(name)}", value
    if _may_hide(type(obj)) and not has_large_body(obj):
        # what C code holds: partial, lru_cache, generators, iterators, Cython classes
        for value in gc.get_referents(obj):
            if id(value) not in named_ids and not is_class(value):
                yield "", value
