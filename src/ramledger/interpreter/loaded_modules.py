"""Modules that the program has loaded, read without running their code.

`sys.modules` may contain anything: a lazy module whose `__getattr__` imports, a test's stub with
the name of a library, an object that raises. So only a module's own dictionary is read.
"""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ramledger.interpreter.type_facts import namespace_of

_DICT: Any = vars(ModuleType)["__dict__"]
_NOTHING: Mapping[str, Any] = {}


def namespace(module: Any) -> Mapping[str, Any]:
    """The names in a module; none if it is not a module."""
    if not issubclass(type(module), ModuleType):
        return _NOTHING
    found = _DICT.__get__(module)
    return found if type(found) is dict else _NOTHING


def loaded(name: str, attribute: str) -> Any:
    """`sys.modules[name].attribute` if it is there already, else None."""
    return namespace(sys.modules.get(name)).get(attribute)


def text_of(module: Any, attribute: str) -> str:
    """A string in a module, such as its `__file__`; '' where there is none."""
    found = namespace(module).get(attribute)
    return str.__str__(found) if issubclass(type(found), str) else ""


def attributes_of(owner: Any) -> Mapping[str, Any]:
    """The attributes that a module or a class itself defines; nothing for other objects."""
    return namespace_of(owner) if issubclass(type(owner), type) else namespace(owner)


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set it in a module or a class, without a `__setattr__` that the program defines."""
    if issubclass(type(owner), type):
        type.__setattr__(owner, name, value)
    else:
        ModuleType.__setattr__(owner, name, value)
