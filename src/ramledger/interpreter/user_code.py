"""Which files, modules and classes the user wrote: not the standard library, no package, not us."""

import os
import sys
import sysconfig
import types
from functools import lru_cache
from typing import Any

from ramledger.interpreter.loaded_modules import text_of
from ramledger.interpreter.type_facts import module_of, once_a_type


def user_modules() -> list[types.ModuleType]:
    """Modules whose file the user wrote, `__main__` first."""
    return _modules(user=True)


def library_modules() -> list[types.ModuleType]:
    """Modules of installed packages and of the standard library that have a file."""
    return _modules(user=False)


_USER, _LIBRARY, _NEITHER = range(3)
_sorts: dict[str, int] = {}  # by name in sys.modules, of the module with this id: no tuples, ...
_identities: dict[str, int] = {}  # ... because thousands of them would be among the objects


def _modules(*, user: bool) -> list[types.ModuleType]:
    wanted = _USER if user else _LIBRARY
    loaded = list(sys.modules.items())
    found = [module for name, module in loaded if _sort_of(name, module) == wanted]
    if len(_sorts) > 2 * len(loaded):  # most of them are not loaded any more
        _sorts.clear()
        _identities.clear()
    # __main__ first: the shortest names are the user's own
    return sorted(found, key=lambda module: text_of(module, "__name__") != "__main__")


def _sort_of(name: Any, module: Any) -> int:
    """Decided once a module: a program with torch has thousands of modules."""
    if type(name) is not str:
        return _NEITHER
    # a script's module has its file a moment after it is there, and loses it at the end
    if _identities.get(name) != id(module) or name == "__main__":
        _sorts[name], _identities[name] = _sorted(name, module), id(module)
    return _sorts[name]


def _sorted(name: str, module: Any) -> int:
    if type(module) is not types.ModuleType:
        return _NEITHER
    if name.partition(".")[0] == "ramledger":
        return _NEITHER
    file = text_of(module, "__file__")
    if file:
        return _USER if is_user_file(file) else _LIBRARY
    # python -c, a console and a notebook have a __main__ without a file
    return _USER if name == "__main__" else _NEITHER


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
