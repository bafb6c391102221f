"""Lines of the user's functions that store or make something, found in their bytecode.

The search is by name: lines that deal with another thing of the same name are found, too.
"""

import re
import types
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from ramledger.interpreter.attributes import is_class
from ramledger.interpreter.frames import running_frames
from ramledger.interpreter.loaded_modules import namespace, text_of
from ramledger.interpreter.source_text import line_of_code
from ramledger.interpreter.type_facts import module_of, namespace_of
from ramledger.interpreter.user_code import is_user_file, user_modules

ADDING_METHODS = frozenset(
    {
        "append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault",
        "put", "put_nowait", "push", "heappush",
    }
)  # fmt: skip
# what only a method of torch adds to
_REGISTERED_BY = {
    "_forward_hooks": "register_forward_hook",
    "_forward_pre_hooks": "register_forward_pre_hook",
    "_backward_hooks": "register_full_backward_hook",
    "param_groups": "add_param_group",
}
_DRAWING_CALLS = frozenset({"sample", "choice", "choices", "permutation", "randint", "integers"})
_CACHE = type(lru_cache(abs))
_MOST_CODES = 5_000
_MOST_SITES = 3
_INDEX = re.compile(r"\[[^\]]*\]")
_known: dict[tuple[str, str], tuple[str, ...]] = {}  # by what is done, and the name


def name_in(path: str) -> str:
    """`pages` of `train.py:run.journal.pages[*]`; '' if the path does not end with a name."""
    name = _INDEX.sub("", path).rpartition(":")[2].rpartition(".")[2]
    return name if name.isidentifier() else ""


def lines_that_add_to(path: str) -> tuple[str, ...]:
    """`train.py:29 in Journal.log: self.pages.append(page)` for each line that adds to a path's
    last name; where there is none, for each that assigns to it.
    """
    name = name_in(path)
    if name in _REGISTERED_BY:
        return _found("makes", _REGISTERED_BY[name])
    if name == "__defaults__":
        return _found("adds to an argument", name_in(path.rpartition(".")[0]))
    if not name:
        return ()
    return (
        _found("adds", name)
        or _handed_to(name)
        or _found("assigns", name)
        or _found("is defined", name)
    )


def lines_that_assign(path: str) -> tuple[str, ...]:
    """The same for each line that assigns to it, such as `self.memory = deque(maxlen=1000)`."""
    name = name_in(path)
    if not name:
        return ()
    is_attribute = "." in path.rpartition(":")[2]
    return _found("assigns an attribute" if is_attribute else "assigns", name)


def lines_that_draw(path: str) -> tuple[str, ...]:
    """The same for each line that draws elements: `random.sample(self.memory, 32)`."""
    name = name_in(path)
    return _found("draws", name) if name else ()


def lines_that_make(kind: str) -> tuple[str, ...]:
    """The same for each line that calls a class by its name, such as `__main__.TradingEnv`."""
    name = kind.rpartition(".")[2]
    return _found("makes", name) if name.isidentifier() else ()


def _found(what: str, name: str) -> tuple[str, ...]:
    key = (what, name)
    if key not in _known:
        search = _SEARCHES.get(what) or _lines_of(what)
        lines = dict.fromkeys(line for code in user_codes() for line in search(code, name))
        _known[key] = tuple(lines)[:_MOST_SITES]
    return _known[key]


def _handed_to(name: str) -> tuple[str, ...]:
    """Where functions that get it as an argument add to one: `keep_best(hall_of_fame, …)`."""
    called = {one for code in user_codes() for one in _called_with(code, name)}
    return tuple(line for one in sorted(called) for line in _found("adds to an argument", one))


def _adds_to_argument(code: types.CodeType, function: str) -> Iterator[str]:
    if code.co_name == function:
        count = code.co_argcount + code.co_kwonlyargcount
        arguments = [one for one in code.co_varnames[:count] if one != "self"]
        for argument in arguments:
            yield from _lines(code, argument, "adds")


def _called_with(code: types.CodeType, name: str) -> Iterator[str]:
    """Names that are called on lines that read this one."""
    for names in _names_by_line(code, name).values():
        if name in names:
            yield from names - {name}


def _names_by_line(code: types.CodeType, name: str) -> dict[int, set[str]]:
    """Names that each line reads; nothing where the code does not know `name`."""
    found: dict[int, set[str]] = {}
    for line, step in steps(code) if name in _names(code) else ():
        if step.opname.startswith("LOAD_") and isinstance(step.argval, str):
            found.setdefault(line, set()).add(step.argval)
    return found


def user_codes() -> Iterator[types.CodeType]:
    """Code of the user's functions and methods, nested ones included."""
    waiting = [frame.f_code for frame in running_frames()]
    for module in user_modules():
        waiting += _codes_of(namespace(module).values(), text_of(module, "__name__"))
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_CODES:
        code = waiting.pop()
        if id(code) in seen or not is_user_file(code.co_filename):
            continue
        seen.add(id(code))
        yield code
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]


def _codes_of(values: Iterable[Any], module: str) -> list[types.CodeType]:
    found: list[types.CodeType] = []
    for value in list(values):
        if type(value) is staticmethod or type(value) is classmethod:
            value = value.__func__
        elif type(value) is property:
            value = value.fget
        elif type(value) is _CACHE:
            value = value.__wrapped__
        if type(value) is types.FunctionType:
            found.append(value.__code__)
        elif module and is_class(value) and module_of(value) == module:
            found += _codes_of(namespace_of(value).values(), "")
    return found


def _lines_of(what: str) -> Callable[[types.CodeType, str], Iterator[str]]:
    return lambda code, name: _lines(code, name, what)


def _names(code: types.CodeType) -> tuple[str, ...]:
    return (*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)


def steps(code: types.CodeType) -> Iterator[tuple[int, Any]]:
    """Instructions with their lines."""
    import dis  # imported here: every process of a run loads this module, few need `dis`

    line = -1
    for step in dis.get_instructions(code):
        # since 3.13 `starts_line` is only a bool
        number = getattr(step, "line_number", step.starts_line)
        line = number if number is not None else line
        yield line, step


def _lines(code: types.CodeType, name: str, what: str) -> Iterator[str]:
    if name not in _names(code):
        return
    does = _WHAT[what]
    decorated = _decorated(code)
    loaded_on = -1
    for line, step in steps(code):
        named = step.argval == name or (isinstance(step.argval, tuple) and name in step.argval)
        if named and step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST":
            loaded_on = line
        elif does(step.opname, step.argval, named, loaded_on == line):
            shown = decorated.get(name, line) if what == "assigns" else line
            yield line_of_code(code.co_filename, shown, code.co_qualname)


def _decorated(code: types.CodeType) -> dict[str, int]:
    """Functions that are defined there, and where: a decorator's line before that of `def`."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return {one.co_name: one.co_firstlineno for one in inner}


def _adds(operation: str, argument: Any, named: bool, is_read: bool) -> bool:
    """Whether an instruction, on a line that reads the container, adds something to it."""
    if not is_read:
        return False
    if operation.startswith("LOAD_"):
        return isinstance(argument, str) and argument in ADDING_METHODS
    return operation == "STORE_SUBSCR" or (named and operation.startswith("STORE_"))


def _assigns(operation: str, argument: Any, named: bool, is_read: bool) -> bool:
    return named and operation.startswith("STORE_")


def _assigns_attribute(operation: str, argument: Any, named: bool, is_read: bool) -> bool:
    return named and operation == "STORE_ATTR"


def _makes(operation: str, argument: Any, named: bool, is_read: bool) -> bool:
    return is_read and operation.startswith("CALL")


def _draws(code: types.CodeType, name: str) -> Iterator[str]:
    for line, names in _names_by_line(code, name).items():
        if name in names and not names.isdisjoint(_DRAWING_CALLS):
            yield line_of_code(code.co_filename, line, code.co_qualname)


def _defined(code: types.CodeType, name: str) -> Iterator[str]:
    if code.co_name == name:
        yield line_of_code(code.co_filename, code.co_firstlineno, "<module>")


_SEARCHES = {"adds to an argument": _adds_to_argument, "is defined": _defined, "draws": _draws}
_WHAT = {
    "adds": _adds,
    "assigns": _assigns,
    "assigns an attribute": _assigns_attribute,
    "makes": _makes,
}
