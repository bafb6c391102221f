"""Where a walk over objects begins: module globals, class attributes, locals of running frames.

Paths read as people write them: `train.py:replay` (a global), `train.py:main.replay` (a local).
"""

import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from ramledger.interpreter.attributes import first_items, is_class, is_opaque
from ramledger.interpreter.frames import frame_locals, running_frames
from ramledger.interpreter.loaded_modules import namespace, text_of
from ramledger.interpreter.type_facts import bare_name, module_of, namespace_of, short
from ramledger.interpreter.user_code import is_user_file, library_modules, user_modules

Root = tuple[str, Any]

_MOST_NAMES = 20_000  # of a module or a class


def user_roots() -> Iterator[Root]:
    """Globals and class attributes of modules that are the user's own, then frame locals."""
    for module in user_modules():
        yield from _module_roots(module, _file_label(module))
    yield from frame_roots()


def library_roots() -> Iterator[Root]:
    """Globals of installed packages: caches and registries that hold what users lost."""
    for module in library_modules():
        yield from _module_roots(module, short(text_of(module, "__name__")) + ":", classes=False)


def frame_roots() -> Iterator[Root]:
    """Locals of the user's functions that are running now, in every thread."""
    for frame in running_frames():
        code = frame.f_code
        if is_user_file(code.co_filename):
            label = f"{short(os.path.basename(code.co_filename))}:{short(code.co_name)}."
            for name, value in frame_locals(frame):
                yield label + short(name), value


def _module_roots(module: types.ModuleType, label: str, *, classes: bool = True) -> Iterator[Root]:
    own_name = text_of(module, "__name__")
    for name, value in first_items(namespace(module), _MOST_NAMES):
        if type(name) is not str or name.startswith("__") or is_opaque(type(value)):
            continue
        if is_class(value):
            if classes and module_of(value) == own_name:
                yield from _class_roots(value, label)
        elif type(value) is not types.FunctionType or value.__closure__ or value.__defaults__:
            yield label + short(name), value


def _class_roots(kind: type, label: str) -> Iterator[Root]:
    for name, value in first_items(namespace_of(kind), _MOST_NAMES):
        if not name.startswith("__") and not is_opaque(type(value)):
            yield f"{label}{bare_name(kind)}.{short(name)}", value


def _file_label(module: types.ModuleType) -> str:
    file, name = text_of(module, "__file__"), text_of(module, "__name__")
    if not file and name == "__main__":
        file = _script()  # at exit CPython has taken __file__ away (pymain_run_file_obj)
    return short(os.path.basename(file or name)) + ":"


def _script() -> str:
    """What was started, if the program still says so and it is a file."""
    arguments = namespace(sys).get("argv")
    first = arguments[0] if type(arguments) is list and arguments else ""
    return first if type(first) is str and first.endswith(".py") else ""
