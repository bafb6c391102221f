"""One way to put a method of a library's class in a wrapper."""

import functools
import types
from collections.abc import Callable
from typing import Any

from ramledger.interpreter.loaded_modules import attributes_of, namespace, set_attribute

Method = Callable[..., Any]


def wrap_method(
    module: types.ModuleType, owner: str, name: str, around: Callable[[Method], Method]
) -> bool:
    """`owner.name` becomes `around(it)`; False, and nothing changed, where there is no such one."""
    kind = namespace(module).get(owner)
    method = attributes_of(kind).get(name) if isinstance(kind, type) else None
    if type(method) is not types.FunctionType:
        return False
    set_attribute(kind, name, functools.wraps(method)(around(method)))
    return True
