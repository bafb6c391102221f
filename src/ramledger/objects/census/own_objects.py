"""Counts the objects that ramledger itself holds: they are not the program's.

Its rooms' globals are followed through its own instances and plain containers. Objects of the
program, of which some of ours know, are not entered.
"""

import gc
import sys
import types
from collections import Counter
from itertools import compress
from typing import Any

from ramledger.interpreter.attributes import container_kind, is_class
from ramledger.interpreter.loaded_modules import namespace
from ramledger.interpreter.type_facts import module_of, type_name
from ramledger.objects.roles import is_instrument

_MOST = 20_000
_STATIC = (types.FunctionType, types.ModuleType)


def count_own_objects() -> Counter[str]:
    """How many objects of each type are ours, of those that the garbage collector tracks."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    level = [namespace(sys.modules.get(module)).get(name) for module, name in _globals()]
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


_known: tuple[int, list[tuple[str, str]]] = (0, [])  # how many modules there were; globals in them


def _globals() -> list[tuple[str, str]]:
    """Module and name of each global of ours that holds something; looked up if modules are new."""
    global _known
    modules = [name for name in list(sys.modules) if type(name) is str]
    if _known[0] != len(modules):
        ours = [name for name in modules if name.partition(".")[0] == "ramledger"]
        found = [
            (module, name)
            for module in ours
            for name, value in list(namespace(sys.modules.get(module)).items())
            if _may_be_ours(value)
        ]
        _known = (len(modules), found)
    return _known[1]


def _may_be_ours(obj: Any) -> bool:
    """Whether objects of this type may be ours."""
    if is_class(obj) or type(obj) in _STATIC:
        return False
    kind = type(obj)
    if is_instrument(kind):
        return True
    is_plain = module_of(kind) in ("builtins", "collections")
    return is_plain and container_kind(kind) is not None
