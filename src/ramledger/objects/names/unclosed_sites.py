"""Figures and environments that a function of the user's opens and never closes, in its bytecode.

Only where the thing stays in that function: what is returned or stored is for others to close.
"""

import types
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from ramledger.interpreter.attributes import is_class
from ramledger.interpreter.loaded_modules import namespace
from ramledger.interpreter.source_text import line_of_code, place_of_code
from ramledger.interpreter.type_facts import (
    ancestors,
    namespace_of,
    package_and_name,
    type_name,
)
from ramledger.interpreter.user_code import user_modules
from ramledger.objects.names.code_sites import ADDING_METHODS, steps, user_codes
from ramledger.objects.roles import ENVIRONMENT, role_of

FIGURE = "matplotlib.figure.Figure"
LOOP, FUNCTION = "the loop ends", "the function ends"
_FIGURE_MAKERS = ("subplots", "figure", "subplot_mosaic")
_ENVIRONMENT_MAKERS = ("make", "make_vec")
_BASES = ("gymnasium", "gym", "pettingzoo")  # their close() does nothing by itself
_MOST_SITES = 3
_MODULE = "<module>"
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")

_known: dict[tuple[str, ...], tuple[str, ...]] = {}


class _Site(NamedTuple):
    """A call on a line, and the name that gets its result, '' if none does."""

    line: int
    offset: int
    name: str


def unclosed_sites(kinds: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """By class: the line that opens one, then where what it is used in ends, and so on."""
    environments = _environments()
    found: dict[str, tuple[str, ...]] = {}
    for kind in kinds:
        if kind == FIGURE:
            found[kind] = _unclosed(_FIGURE_MAKERS)
        elif kind in environments:
            found[kind] = _unclosed((*_ENVIRONMENT_MAKERS, kind.rpartition(".")[2]))
    return {kind: sites for kind, sites in found.items() if sites}


def _environments() -> set[str]:
    """Names of the program's own environment classes for which closing does something."""
    values = [value for module in user_modules() for value in list(namespace(module).values())]
    return {
        type_name(one)
        for one in values
        if is_class(one) and role_of(one) is ENVIRONMENT and _has_own_close(one)
    }


def _has_own_close(kind: type) -> bool:
    closing = [one for one in ancestors(kind) if "close" in namespace_of(one)]
    return bool(closing) and package_and_name(closing[0])[0] not in _BASES


def _unclosed(makers: tuple[str, ...]) -> tuple[str, ...]:
    if makers not in _known:
        pairs = [pair for code in user_codes() for pair in _pairs(code, makers)]
        _known[makers] = tuple(line for pair in pairs[:_MOST_SITES] for line in pair)
    return _known[makers]


def _pairs(code: types.CodeType, makers: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if "close" in code.co_names or not set(makers) & {*code.co_names, *code.co_freevars}:
        return
    done = list(steps(code))
    for site in _sites(done, makers):
        if site.name and _escapes(code, done, site.name):
            continue
        last = _end_of_loop(done, site.offset)
        how = LOOP if last else FUNCTION
        if not last and code.co_name == _MODULE:
            continue
        last = last or max(line for line, _ in done)
        opened = line_of_code(code.co_filename, site.line, code.co_qualname)
        yield opened, f"{place_of_code(code.co_filename, last, code.co_qualname)}: {how}"


def _sites(done: list[tuple[int, Any]], makers: tuple[str, ...]) -> Iterator[_Site]:
    """Calls of a maker, one a line."""
    read_on = called_on = -1
    read_before, offset = False, 0
    for line, step in done:
        if line == called_on and step.opname.startswith("STORE_"):
            stored = step.argval if isinstance(step.argval, str) else step.argval[0]
            yield _Site(line, offset, stored)
            called_on = -1
        elif called_on not in (-1, line) or (line == called_on and step.opname == "POP_TOP"):
            yield _Site(called_on, offset, "")
            called_on = -1
        if step.opname.startswith("LOAD_") and step.argval in makers:
            read_on, read_before = line, True
            continue
        if read_before and step.opname in _ATTRIBUTES:  # `Maze.size()` makes no Maze
            read_on = -1
        read_before = False
        if step.opname.startswith("CALL") and read_on == line:
            called_on, offset, read_on = line, step.offset, -1


def _escapes(code: types.CodeType, done: list[tuple[int, Any]], name: str) -> bool:
    """Whether the thing of this name is returned, stored or shared with an inner function."""
    if name in (*code.co_cellvars, *code.co_freevars):
        return True
    leaves = {line for (_, before), (line, step) in pairwise(done) if _takes(before, step)}
    for (line, step), (_, after) in pairwise(done):
        named = step.argval == name or (isinstance(step.argval, tuple) and name in step.argval)
        is_read = named and step.opname.startswith("LOAD_")
        if is_read and line in leaves and after.opname not in _ATTRIBUTES:
            return True
    return False


def _takes(before: Any, step: Any) -> bool:
    """Whether an instruction gives something on its line a longer life."""
    name: str = step.opname
    if name == "RETURN_VALUE":
        # else the end of a function without `return`
        return bool(before.opname != "LOAD_CONST")
    if name.startswith(("YIELD", "STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL")):
        return True
    return bool(name.startswith("LOAD_") and step.argval in ADDING_METHODS)


def _end_of_loop(done: list[tuple[int, Any]], offset: int) -> int:
    """The last line of the innermost loop around an instruction; 0 without one."""
    spans = [
        (step.argval, step.offset)
        for _, step in done
        if "JUMP_BACKWARD" in step.opname and step.argval <= offset < step.offset
    ]
    if not spans:
        return 0
    begin, end = min(spans, key=lambda span: span[1] - span[0])
    return max(line for line, step in done if begin <= step.offset <= end)
