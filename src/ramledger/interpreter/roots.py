"""Where a user's objects are held first: module globals, class attributes, running frames.

Paths read as people write them: `train.py:replay` (a global), `train.py:main.replay` (a local).
"""

import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ramledger.interpreter.attributes import first_items, is_class, is_opaque
from ramledger.interpreter.frames import frame_locals, running_frames
from ramledger.interpreter.modules import namespace, text_of
from ramledger.interpreter.typenames import bare_name, module_of, namespace_of, once_a_type, short

Root = tuple[str, Any]

_MOST_NAMES = 20_000  # of a module or a class


def user_roots() -> Iterator[Root]:
    """Globals and class attributes of modules that are the user's own, then frame locals."""
    for module in user_modules():
        yield from _module_roots(module, _file_label(module))
    yield from frame_roots()


def library_roots() -> Iterator[Root]:
    """Globals of installed packages: caches and registries that hold what users lost."""
    for module in _modules(user=False):
        yield from _module_roots(module, short(text_of(module, "__name__")) + ":", classes=False)


def frame_roots() -> Iterator[Root]:
    """Locals of the user's functions that are running now, in every thread."""
    for frame in running_frames():
        code = frame.f_code
        if is_user_file(code.co_filename):
            label = f"{short(os.path.basename(code.co_filename))}:{short(code.co_name)}."
            for name, value in frame_locals(frame):
                yield label + short(name), value


def user_modules() -> list[types.ModuleType]:
    """Modules whose file is the user's own, `__main__` first."""
    return _modules(user=True)


def _modules(*, user: bool) -> list[types.ModuleType]:
    found = []
    for name, module in list(sys.modules.items()):
        if type(module) is not types.ModuleType or type(name) is not str:
            continue
        if name.partition(".")[0] == "ramledger":
            continue
        file = text_of(module, "__file__")
        # python -c, a console and a notebook have a __main__ without a file
        is_user = is_user_file(file) if file else name == "__main__"
        if is_user == user and (user or file):
            found.append(module)
    # __main__ first: the shortest names are the user's own
    return sorted(found, key=lambda module: text_of(module, "__name__") != "__main__")


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


@lru_cache(maxsize=8192)
def is_user_file(path: str) -> bool:
    """Whether a file is neither the standard library, an installed package nor ours."""
    if path.startswith("<"):
        return path.startswith("<ipython") or path in ("<stdin>", "<string>")
    try:
        path = os.path.abspath(path)
    except OSError:  # a relative one, and the folder it was relative to is gone
        return True
    if "/site-packages/" in path or "/dist-packages/" in path:
        return False
    return not path.startswith(_INSTALLED)


_INSTALLED = (
    *(
        os.path.join(path, "")
        for key, path in sysconfig.get_paths().items()
        if key in ("stdlib", "platstdlib", "purelib", "platlib")
    ),
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ""),
)


@once_a_type
def is_user_type(kind: type) -> bool:
    """Whether a class was written by the user: its module's file is theirs."""
    name = module_of(kind)
    file = text_of(sys.modules.get(name), "__file__")
    if name == "__main__" and not file:
        return True
    return bool(file) and is_user_file(file)
