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

from ramledger.inside.attributes import OPAQUE_TYPES, is_class
from ramledger.inside.frames import frame_locals, running_frames
from ramledger.inside.typenames import module_of

Root = tuple[str, Any]


def user_roots() -> Iterator[Root]:
    """Globals and class attributes of modules that are the user's own, then frame locals."""
    for module in user_modules():
        yield from _module_roots(module, _file_label(module))
    yield from frame_roots()


def library_roots() -> Iterator[Root]:
    """Globals of installed packages: caches and registries that hold what users lost."""
    for module in _modules(user=False):
        yield from _module_roots(module, module.__name__ + ":", classes=False)


def frame_roots() -> Iterator[Root]:
    """Locals of the user's functions that are running now, in every thread."""
    for frame in running_frames():
        code = frame.f_code
        if is_user_file(code.co_filename):
            label = f"{os.path.basename(code.co_filename)}:{code.co_name}."
            for name, value in frame_locals(frame):
                yield label + name, value


def user_modules() -> list[types.ModuleType]:
    """Modules whose file is the user's own, `__main__` first."""
    return _modules(user=True)


def _modules(*, user: bool) -> list[types.ModuleType]:
    found = []
    for name, module in list(sys.modules.items()):
        if type(module) is not types.ModuleType or name.partition(".")[0] == "ramledger":
            continue
        file = module.__dict__.get("__file__")
        # python -c, a console and a notebook have a __main__ without a file
        is_user = is_user_file(file) if isinstance(file, str) else name == "__main__"
        if is_user == user and (user or isinstance(file, str)):
            found.append(module)
    # __main__ first: the shortest names are the user's own
    return sorted(found, key=lambda m: m.__name__ != "__main__")


def _module_roots(module: types.ModuleType, label: str, *, classes: bool = True) -> Iterator[Root]:
    for name, value in list(module.__dict__.items()):
        if name.startswith("__") or type(value) in OPAQUE_TYPES:
            continue
        if is_class(value):
            if classes and module_of(value) == module.__name__:
                yield from _class_roots(value, label)
        elif type(value) is not types.FunctionType or value.__closure__ or value.__defaults__:
            yield label + name, value


def _class_roots(kind: type, label: str) -> Iterator[Root]:
    for name, value in list(kind.__dict__.items()):
        if not name.startswith("__") and type(value) not in OPAQUE_TYPES:
            yield f"{label}{kind.__name__}.{name}", value


def _file_label(module: types.ModuleType) -> str:
    file = module.__dict__.get("__file__")
    if not file and module.__name__ == "__main__" and sys.argv[0].endswith(".py"):
        file = sys.argv[0]  # at exit CPython has taken __file__ away (pymain_run_file_obj)
    return os.path.basename(str(file or module.__name__)) + ":"


@lru_cache(maxsize=8192)
def is_user_file(path: str) -> bool:
    """Whether a file is neither the standard library, an installed package nor ours."""
    if path.startswith("<"):
        return path.startswith("<ipython") or path in ("<stdin>", "<string>")
    path = os.path.abspath(path)
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


def is_user_type(kind: type) -> bool:
    """Whether a class was written by the user: its module's file is theirs."""
    name = module_of(kind)
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" and file is None:
        return True
    return isinstance(file, str) and is_user_file(file)
