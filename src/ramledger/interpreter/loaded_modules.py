"""Modules that the program has loaded, read without running code of theirs.

Anything can stand in `sys.modules`: a lazy module whose `__getattr__` imports, a stub of a test
with the name of a library, an object that raises. So only a module's own dictionary is read.
"""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ramledger.interpreter.type_facts import namespace_of

_DICT: Any = vars(ModuleType)["__dict__"]
_NOTHING: Mapping[str, Any] = {}


def namespace(module: Any) -> Mapping[str, Any]:
    """The names in a module; none where it is no module at all."""
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
    """What a module or a class itself defines; nothing for everything else."""
    return namespace_of(owner) if issubclass(type(owner), type) else namespace(owner)


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set it in a module or a class as Python does where nobody has changed how."""
    if issubclass(type(owner), type):
        type.__setattr__(owner, name, value)
    else:
        ModuleType.__setattr__(owner, name, value)
