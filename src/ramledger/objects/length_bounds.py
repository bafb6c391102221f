"""How long a container may become, as the program's own code says.

`if len(self.memory) > self.most: self.memory.pop(0)` bounds a list as `deque(maxlen=…)` does. The
text around such a comparison is read once; the number is looked up without running anything.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ramledger.interpreter.attributes import container_length, instance_dict
from ramledger.interpreter.loaded_modules import namespace
from ramledger.interpreter.source_text import lines_of
from ramledger.interpreter.type_facts import module_of, namespace_of
from ramledger.interpreter.user_code import is_user_file

_LEAST_LENGTH = 64  # shorter ones may still be anything
_BODY_LINES = 8
_COMPARED = re.compile(
    r"\b(?P<word>if|while|elif)\b.*?\blen\(\s*(?P<name>[A-Za-z_][\w.]*)\s*\)\s*"
    r"(?P<sign>>=|>|==|<=|<)\s*"
    r"(?P<bound>[A-Za-z_][\w.]*(?:\[['\"]\w+['\"]\])?|\d[\d_]*)\s*(?:\)|:|$|\band\b|\bor\b)"
)
_NAME = r"([A-Za-z_][\w.]*)"
_REMOVED = re.compile(rf"{_NAME}\.(?:pop|popleft|popitem|remove)\(|\bdel {_NAME}\[|{_NAME} = \3\[")
_ADDS = (".append(", ".appendleft(", ".add(")

Look = Callable[[str], Any]  # the value of the first name in an expression; None where unknown


class Bound(NamedTuple):
    """One comparison: `name` as written, and the expression that bounds its length."""

    name: str
    expression: str


@lru_cache(maxsize=256)
def bounds_in(file: str) -> tuple[Bound, ...]:
    """Comparisons in a file after which elements go, or without which none come."""
    lines = lines_of(file)
    return tuple(_bounds(lines)) if any("len(" in line for line in lines) else ()


def _bounds(lines: list[str]) -> Iterator[Bound]:
    for number, line in enumerate(lines):
        found = _COMPARED.search(line)
        if found is None:
            continue
        name, body = found["name"], _body(lines, number)
        if found["sign"] in ("<", "<="):
            names = {name} if any(name + how in body for how in _ADDS) else set()
        else:
            # lists that are as long as the one that is asked lose their elements with it
            names = {next(filter(None, one.groups())) for one in _REMOVED.finditer(body)}
        if name in names:
            yield from (Bound(one, found["bound"]) for one in sorted(names))


def _body(lines: list[str], number: int) -> str:
    """The rest of the line and what is indented below it."""
    line = lines[number]
    indent = len(line) - len(line.lstrip())
    parts = [line.partition(":")[2]]
    for later in lines[number + 1 : number + 1 + _BODY_LINES]:
        if later.strip() and len(later) - len(later.lstrip()) <= indent:
            break
        parts.append(later)
    return "\n".join(parts)


def bound_of_attribute(owner: Any, label: str, value: Any) -> int | None:
    """Of a container that an instance of the user's holds as `.label`."""
    length = container_length(value) or 0
    if length < _LEAST_LENGTH or not label.startswith("."):
        return None
    for kind in type.mro(type(owner)):
        names = namespace(sys.modules.get(module_of(kind)))
        file = names.get("__file__")
        if type(file) is str and is_user_file(file):
            found = _bound(file, f"self{label}", _names_of_method(owner, names), length)
            if found is not None:
                return found
    return None


def _names_of_method(owner: Any, names: Mapping[str, Any]) -> Look:
    """What a method sees, without a copy of its module's names."""
    return lambda first: owner if first == "self" else names.get(first)


def bound_of_variable(file: str, name: str, value: Any, *scopes: Mapping[str, Any]) -> int | None:
    """Of a container in a variable; what its bound is called is looked up in the scopes."""
    length = container_length(value) or 0
    if length < _LEAST_LENGTH or not is_user_file(file):
        return None

    def look(first: str) -> Any:
        return next((scope[first] for scope in scopes if first in scope), None)

    return _bound(file, name, look, length)


def _bound(file: str, name: str, look: Look, length: int) -> int | None:
    """The largest that is not yet exceeded; one that is, is no bound of this container."""
    values = [_value(one.expression, look) for one in bounds_in(file) if one.name == name]
    return max(
        (value for value in values if value is not None and value + 1 >= length), default=None
    )


def _value(expression: str, look: Look) -> int | None:
    if expression[0].isdigit():
        return int(expression.replace("_", ""))
    path, _, key = expression.partition("[")
    first, *rest = path.split(".")
    found = look(first)
    for part in rest:
        found = _attribute(found, part)
    if key and type(found) is dict:
        found = found.get(key.strip("'\"]"))
    return found if type(found) is int and found > 1 else None


def _attribute(owner: Any, name: str) -> Any:
    """Of an instance, a class or a module, as stored: properties are not called."""
    for fields in (instance_dict(owner), namespace(owner)):
        if fields and name in fields:
            return fields[name]
    kind = owner if isinstance(owner, type) else type(owner)
    for base in type.mro(kind) if kind is not type else ():
        if name in (fields := namespace_of(base)):
            return fields[name]
    return None
