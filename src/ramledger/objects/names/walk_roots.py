"""Where a walk over objects begins, what lives longest first.

Globals and class attributes of the user's modules come first, then the locals of running functions,
outermost function first. A function's loop variables come last: they hold an element of something.
"""

import os
import sys
import types
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ramledger.interpreter.attributes import first_items, is_class, is_opaque
from ramledger.interpreter.frames import frame_locals, running_frames
from ramledger.interpreter.loaded_modules import namespace, text_of
from ramledger.interpreter.type_facts import bare_name, module_of, namespace_of, short
from ramledger.interpreter.user_code import is_user_file, library_modules, user_modules
from ramledger.objects.length_bounds import bound_of_variable

_MOST_NAMES = 20_000  # of a module or a class
_NOTEBOOK = "get_ipython"


class Root(NamedTuple):
    """One variable: its name as printed, where it is found, and its value."""

    name: str
    access: str
    value: Any
    capacity: int | None = None  # where the code bounds its length


def user_roots() -> Iterator[list[Root]]:
    """Groups of variables; what an earlier group reaches is not a later group's."""
    frames = [frame for frame in running_frames() if is_user_file(frame.f_code.co_filename)]
    try:
        scripts = {id(f.f_globals): f.f_code for f in frames if f.f_code.co_name == "<module>"}
        yield from _global_roots(scripts)
        for number in range(len(frames)):
            frame = frames[number]
            yield from _frame_roots(frame.f_code, frame_locals(frame), frame.f_globals)
            del frame
    finally:
        frames.clear()  # a frame that is referred to outlives its function


def library_roots() -> Iterator[Root]:
    """Globals of installed packages: caches and registries that hold what users lost."""
    for module in library_modules():
        prefix = short(text_of(module, "__name__")) + ":"
        yield from _variables(module, prefix, prefix)


def _global_roots(scripts: Mapping[int, types.CodeType]) -> Iterator[list[Root]]:
    """Globals and class attributes; loop variables of a script that is running come later."""
    lasting: list[Root] = []
    turning: list[Root] = []
    for module in user_modules():
        script = scripts.get(id(namespace(module)))
        names = loop_variables(script) if script is not None else frozenset()
        for root in _module_roots(module):
            (turning if root.name.rpartition(":")[2] in names else lasting).append(root)
    yield lasting
    yield turning


def _frame_roots(
    code: types.CodeType, pairs: list[tuple[str, Any]], names: Mapping[str, Any]
) -> Iterator[list[Root]]:
    if code.co_name == "<module>":
        return
    scopes = dict(pairs), names
    function = _function_name(code)
    access = f"{short(os.path.basename(code.co_filename))}:{short(code.co_name)}."
    roots = [
        Root(
            f"{function}():{short(name)}", access + short(name), value,
            bound_of_variable(code.co_filename, name, value, *scopes),
        )
        for name, value in pairs
    ]  # fmt: skip
    turning = loop_variables(code)
    yield [root for root, (name, _) in zip(roots, pairs, strict=True) if name not in turning]
    yield [root for root, (name, _) in zip(roots, pairs, strict=True) if name in turning]


def _function_name(code: types.CodeType) -> str:
    """`train`; for a comprehension or a lambda, the function around it."""
    named = [part for part in code.co_qualname.split(".") if not part.startswith("<")]
    return short(named[-1] if named else code.co_name)


@lru_cache(maxsize=2048)
def loop_variables(code: types.CodeType) -> frozenset[str]:
    """Variables that a `for` loop of this function assigns."""
    import dis  # imported here: every process of a run loads this module, few need `dis`

    found: set[str] = set()
    is_target, more = False, 0
    for step in dis.get_instructions(code):
        if step.opname == "FOR_ITER":
            is_target, more = True, 1
        elif is_target and step.opname.startswith("UNPACK_"):
            more += int(step.argval if isinstance(step.argval, int) else 1) - 1
        elif is_target and step.opname.startswith("STORE_") and isinstance(step.argval, str):
            found.add(step.argval)
            more -= 1
            is_target = more > 0
        elif is_target and step.opname not in ("CACHE", "EXTENDED_ARG", "NOP"):
            is_target = False
    return frozenset(found)


def _module_roots(module: types.ModuleType) -> Iterator[Root]:
    own_name, file = text_of(module, "__name__"), _file_of(module)
    access = f"{file or own_name}:"
    for name, value in first_items(namespace(module), _MOST_NAMES):
        if type(name) is str and is_class(value) and module_of(value) == own_name:
            yield from _class_roots(value, access)
    yield from _variables(module, f"{file}:" if file else "", access)


def _variables(module: types.ModuleType, prefix: str, access: str) -> Iterator[Root]:
    for name, value in first_items(namespace(module), _MOST_NAMES):
        if type(name) is not str or name.startswith("__") or is_opaque(type(value)):
            continue
        is_plain = type(value) is types.FunctionType and not (
            value.__closure__ or value.__defaults__
        )
        if not is_class(value) and not is_plain:
            most = bound_of_variable(text_of(module, "__file__"), name, value, namespace(module))
            yield Root(prefix + short(name), access + short(name), value, most)


def _class_roots(kind: type, access: str) -> Iterator[Root]:
    for name, value in first_items(namespace_of(kind), _MOST_NAMES):
        if not name.startswith("__") and not is_opaque(type(value)):
            text = f"{bare_name(kind)}.{short(name)}"
            yield Root(text, access + text, value)


def _file_of(module: types.ModuleType) -> str:
    """`train.py`; '' in a notebook, a console and `python -c`: their variables are names enough."""
    file, name = text_of(module, "__file__"), text_of(module, "__name__")
    if not file and name == "__main__" and _NOTEBOOK not in namespace(module):
        file = _script()  # at exit CPython has taken __file__ away (pymain_run_file_obj)
    return short(os.path.basename(file or ("" if name == "__main__" else name)))


def _script() -> str:
    """What was started, if the program still says so and it is a file."""
    arguments = namespace(sys).get("argv")
    first = arguments[0] if type(arguments) is list and arguments else ""
    return first if type(first) is str and first.endswith(".py") else ""
