"""Counts the objects that ramledger itself holds: they are not the program's.

Its rooms' globals are followed through its own instances and plain containers. Objects of the
program, of which some of ours know, are not entered. Classes and functions of ours, with what is
made for them, stay as they are from the import on: they are counted when modules are new.
"""

import gc
import sys
import types
from collections import Counter
from functools import cached_property
from itertools import compress
from threading import RLock
from typing import Any, NamedTuple

from ramledger.interpreter.attributes import container_kind, is_class
from ramledger.interpreter.loaded_modules import namespace
from ramledger.interpreter.type_facts import module_of, namespace_of, type_name
from ramledger.objects.roles import is_instrument

_MOST = 20_000
_STATIC = (types.FunctionType, types.ModuleType)
# what the definition of a class or function makes
_PARTS = frozenset(
    map(id, {
        property, staticmethod, classmethod, cached_property, tuple, types.CellType,
        types.MemberDescriptorType, types.GetSetDescriptorType, type(RLock()),
        type(vars(NamedTuple("_Pair", [("one", int)]))["one"]),
    })
)  # fmt: skip


def count_own_objects() -> Counter[str]:
    """How many objects of each type are ours, of those that the garbage collector tracks."""
    known = _found_in_modules()
    found = known.static.copy()
    seen: set[int] = set()
    level = [namespace(sys.modules.get(module)).get(name) for module, name in known.globals]
    while level and len(seen) < _MOST:
        kinds = list(map(id, map(type, level)))
        followed = {
            key for key, obj in dict(zip(kinds, level, strict=True)).items() if _may_be_ours(obj)
        }
        ours = list(compress(level, map(followed.__contains__, kinds)))
        level = []
        for obj in ours:
            if id(obj) not in seen:
                seen.add(id(obj))
                found[type_name(type(obj))] += gc.is_tracked(obj)
                level += gc.get_referents(obj)
    return found


class _Modules(NamedTuple):
    """What the modules of ours have."""

    loaded: int  # modules of the process when they were looked at
    ours: int  # of those
    globals: list[tuple[str, str]]  # module and name of each global that holds something
    static: Counter[str]  # classes, functions and what they consist of, by type


_known = _Modules(0, 0, [], Counter())


def _found_in_modules() -> _Modules:
    global _known
    names = [name for name in list(sys.modules) if type(name) is str]
    if _known.loaded != len(names):
        ours = [
            (name, list(namespace(sys.modules.get(name)).items()))
            for name in names
            if _is_our_module(name)
        ]
        found = [
            (module, name) for module, items in ours for name, value in items if _may_be_ours(value)
        ]
        static = _known.static
        if _known.ours != len(ours):
            static = _count_static([value for _, items in ours for _, value in items])
        _known = _Modules(len(names), len(ours), found, static)
    return _known


def _is_our_module(name: object) -> bool:
    return type(name) is str and name.partition(".")[0] == "ramledger"


def _count_static(level: list[Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    seen: set[int] = set()
    while level and len(seen) < _MOST:
        ours = [obj for obj in level if id(obj) not in seen and _is_static(obj)]
        seen.update(map(id, ours))
        level = []
        for obj in {id(obj): obj for obj in ours}.values():
            # the collector stops tracking tuples when it runs: their number says nothing
            found[type_name(type(obj))] += gc.is_tracked(obj) and type(obj) is not tuple
            # what a class or function consists of; a dictionary among that is its namespace
            level += [one for one in gc.get_referents(obj) if type(one) is not dict]
            level += namespace_of(obj).values() if is_class(obj) else ()
    return found


def _is_static(obj: Any) -> bool:
    """A class or function of ours, or a part of one."""
    if is_class(obj):
        return _is_our_module(module_of(obj))
    if type(obj) is types.FunctionType:
        return _is_our_module(obj.__module__)
    return id(type(obj)) in _PARTS


def _may_be_ours(obj: Any) -> bool:
    """Whether objects of this type may be ours."""
    if is_class(obj) or type(obj) in _STATIC:
        return False
    kind = type(obj)
    if is_instrument(kind):
        return True
    is_plain = module_of(kind) in ("builtins", "collections")
    return is_plain and container_kind(kind) is not None
