"""Bytes of single objects as the allocator sees them; the user's `__sizeof__` is never called."""

from collections import OrderedDict, deque
from types import MethodDescriptorType
from typing import Any

from ramledger.interpreter.type_facts import (
    ancestors,
    basic_size,
    flags_of,
    has_dict,
    has_items,
    item_size,
    namespace_of,
    once_a_type,
)

SMALL_OBJECT_BYTES = 512  # pymalloc's limit; larger bodies come from malloc
GC_HEADER_BYTES = 16  # PyGC_Head, before every gc-tracked object
HAS_GC = 1 << 14  # Py_TPFLAGS_HAVE_GC
_LARGE_BODY_BYTES = 1 << 20
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes made by a class statement


def size_of(obj: Any) -> int:
    """Bytes of the object itself, allocator rounding included."""
    kind = type(obj)
    even = even_bytes(kind)
    if even is not None:
        return even
    try:
        size = _sizeof(kind)(obj) + (GC_HEADER_BYTES if flags_of(kind) & HAS_GC else 0)
    except Exception:  # a C type with a broken __sizeof__ must not break a snapshot
        return 0
    return int(size + 15) & ~15


@once_a_type
def even_bytes(kind: type) -> int | None:
    """The size of an instance, if all instances have the same size; else None."""
    is_even = not has_items(kind) and _sizeof(kind) is _PLAIN_SIZEOF
    return size_with_header(kind) if is_even or has_dict_of_its_own(kind) else None


# Their __sizeof__ makes no object that the garbage collector tracks, and runs no other code.
_ASKED = frozenset(map(id, (list, dict, set, frozenset, deque, OrderedDict, type)))
SizeRule = tuple[int, int, Any]


def size_rule(kind: type) -> SizeRule:
    """How `heap_walk` sizes an instance: basic bytes, bytes of an item, method of a builtin type.

    All 0 and None if instances are of one size, or a method would have to be asked that may do
    anything.
    """
    if even_bytes(kind) is not None:
        return 0, 0, None
    method = _sizeof(kind)
    if method is _PLAIN_SIZEOF:
        return basic_size(kind), item_size(kind), None
    return (0, 0, method) if id(method.__objclass__) in _ASKED else (0, 0, None)


@once_a_type
def _sizeof(kind: type) -> Any:
    """The nearest `__sizeof__` in the MRO that is C code, skipping those of the program."""
    for ancestor in ancestors(kind):
        found = namespace_of(ancestor).get("__sizeof__")
        if type(found) is MethodDescriptorType:
            return found
    return _PLAIN_SIZEOF


_PLAIN_SIZEOF: Any = object.__dict__["__sizeof__"]


def has_dict_of_its_own(kind: type) -> bool:
    """Whether it is a class made by a class statement, with attributes in a dictionary."""
    return has_dict(kind) and flags_of(kind) & HEAP_TYPE != 0


def size_with_header(kind: type) -> int:
    """Allocated bytes of a gc-tracked instance, if all instances have the same size."""
    return (basic_size(kind) + GC_HEADER_BYTES + 15) & ~15


def has_large_body(obj: Any) -> bool:
    """Whether it may be a C object with millions of referents: those have a large body."""
    try:
        return int(_sizeof(type(obj))(obj)) >= _LARGE_BODY_BYTES
    except Exception:
        return False
