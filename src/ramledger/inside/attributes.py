"""What an object refers to, with names, without running any code of its class.

Properties, `__getattr__` and `__iter__` of user classes are never called: instance dictionaries
and slots are read through the interpreter's own descriptors, containers through the builtin type.
"""

import gc
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from ramledger.inside.typenames import module_of, once_a_type

Named = tuple[str, Any]

# what a user's data never hides behind, and what would lead back into the whole interpreter
OPAQUE_TYPES: frozenset[type] = frozenset(
    {
        type(None), bool, int, float, complex, str, range, slice, type(...), type(NotImplemented),
        types.ModuleType, types.CodeType, types.BuiltinFunctionType, types.GetSetDescriptorType,
        types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
        types.ClassMethodDescriptorType, types.FrameType, types.TracebackType,
        types.GenericAlias, types.MethodWrapperType, property, classmethod, staticmethod,
    }
)  # fmt: skip

_LET_GO = 8_000  # references: 64 KB, below the least threshold of malloc
_KEY_CHARACTERS = 40
_DICT_LABELS_UP_TO = 64  # larger dictionaries are data, not namespaces: one label for all


def instance_dict(obj: Any) -> dict[str, Any] | None:
    """`obj.__dict__` through the interpreter's descriptor, not the class's own idea of it."""
    getter = _dict_getter(type(obj))
    if getter is None:
        return None
    try:
        found = getter.__get__(obj)
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None


def own_fields(obj: Any) -> dict[str, Any]:
    """Attributes of an instance by name, those in slots too."""
    found = dict(instance_dict(obj) or {})
    for name, member in _slots(type(obj)):
        try:
            found[name] = member.__get__(obj)
        except AttributeError:
            continue
    return found


@once_a_type
def _dict_getter(kind: type) -> Any:
    for ancestor in kind.__mro__:
        candidate = ancestor.__dict__.get("__dict__")
        if isinstance(candidate, types.GetSetDescriptorType):
            return candidate
    return None


@once_a_type
def _slots(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, member)
        for ancestor in kind.__mro__
        for name, member in ancestor.__dict__.items()
        if isinstance(member, types.MemberDescriptorType) and module_of(ancestor) != "builtins"
    )


def is_class(obj: Any) -> bool:
    """Whether `obj` is a class. Not isinstance: that asks `obj.__class__`, which may be code."""
    return issubclass(type(obj), type)


@once_a_type
def container_kind(kind: type) -> type | None:
    """The builtin container a type is or derives from."""
    for builtin in (list, dict, tuple, set, frozenset, deque):
        if issubclass(kind, builtin):
            return builtin
    return None


def container_length(obj: Any) -> int | None:
    """Length of a builtin container or subclass, by the builtin's own rule; None for others."""
    builtin: Any = container_kind(type(obj))
    if builtin is None:
        return None
    length: int = builtin.__len__(obj)
    return length


def let_go(objects: list[Any]) -> None:
    """Empty a long list bit by bit, so that malloc never sees a large block freed.

    When glibc frees a mapped block it takes blocks up to that size from its heap from then on
    (M_MMAP_THRESHOLD in mallopt(3)): the program's own memory would behave otherwise because we
    looked. A list that shrinks gives its pages back by mremap instead.
    """
    while objects:
        del objects[-_LET_GO:]


def elements(obj: Any) -> list[Any]:
    """A snapshot of a container's elements (a dictionary's values), safe against other threads."""
    builtin: Any = container_kind(type(obj))
    for _ in range(5):
        try:
            if builtin is dict:
                return list(dict.values(obj))
            if builtin is not None:
                return list(builtin.__iter__(obj))
        except RuntimeError:  # changed size during iteration: another thread is at work
            continue
    return []


def children(obj: Any) -> Iterator[Named]:
    """(label, object) for everything `obj` holds; labels are written as in Python source."""
    kind = type(obj)
    builtin = container_kind(kind)
    if builtin is dict:
        yield from _dict_children(obj)
    elif builtin is not None:
        for element in elements(obj):
            yield "[*]", element
    if kind is types.FunctionType:
        yield from _closure_children(obj)
    elif kind is types.MethodType:
        yield ".__self__", obj.__self__
    else:
        yield from _instance_children(obj)


def _dict_children(obj: dict[Any, Any]) -> Iterator[Named]:
    try:
        pairs = list(dict.items(obj))
    except RuntimeError:
        return
    named = len(pairs) <= _DICT_LABELS_UP_TO
    for key, value in pairs:
        yield (_key_label(key) if named else "[*]"), value
        if type(key) not in OPAQUE_TYPES:
            yield ".keys()", key


def _key_label(key: Any) -> str:
    if type(key) is str:
        return f"[{key[:_KEY_CHARACTERS]!r}]"
    return f"[{key}]" if type(key) is int and abs(key) < 1_000_000 else "[*]"


def _closure_children(function: Any) -> Iterator[Named]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:  # an empty cell
            continue
    for value in function.__defaults__ or ():
        yield ".__defaults__", value
    wrapped = function.__dict__.get("__wrapped__")
    if wrapped is not None:
        yield ".__wrapped__", wrapped


def _instance_children(obj: Any) -> Iterator[Named]:
    attributes = instance_dict(obj)
    named_ids: set[int] = set()
    if attributes is not None:
        named_ids.add(id(attributes))
        for name, value in list(attributes.items()):
            named_ids.add(id(value))
            yield f".{name}", value
    for name, member in _slots(type(obj)):
        try:
            value = member.__get__(obj)
        except AttributeError:
            continue
        named_ids.add(id(value))
        yield f".{name}", value
    if container_kind(type(obj)) is None:
        # what C code holds: partial, lru_cache, generators, iterators, Cython classes
        for value in gc.get_referents(obj):
            if id(value) not in named_ids and not is_class(value):
                yield "", value
