"""What `import torch` costs: heap and Python objects that appear while a package is imported.

`importlib._bootstrap._find_and_load` runs only for modules not in `sys.modules`; wrapping it
costs nothing for imports already done. Nested imports are booked to the package they load, the
standard library to the package that imported it first.
"""

import importlib._bootstrap
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ramledger
from ramledger.interpreter.loaded_modules import text_of
from ramledger.interpreter.user_code import is_user_file
from ramledger.measure.allocators import malloc, pymalloc

_STDLIB = sys.stdlib_module_names


@dataclass(slots=True)
class ImportCost:
    """Bytes that appeared while one package was being imported."""

    package: str
    native_bytes: int = 0
    python_bytes: int = 0


def _installed_top(name: str) -> str:
    """The package of a loaded module that is neither standard library, ours nor the script."""
    top = name.partition(".")[0] if isinstance(name, str) else ""
    return "" if top in _STDLIB or top in ("ramledger", "__main__", "__mp_main__") else top


def _native_in_use() -> int:
    return malloc.in_use_bytes() or 0


def _python_in_use() -> int:
    return pymalloc.used_bytes() or 0


class ImportTracker:
    """Books growth of the heap to the package that is being imported, per thread."""

    def __init__(self) -> None:
        self.costs: dict[str, ImportCost] = {}
        native_bytes, python_bytes = _native_in_use(), _python_in_use()
        # malloc cannot be asked before ctypes is loaded: our own share is estimated from blocks
        blocks = sys.getallocatedblocks()
        share = max(0, blocks - ramledger._BLOCKS_BEFORE) / blocks if blocks else 0.0
        self.tool_native_bytes = int(native_bytes * share)
        self.tool_python_bytes = int(python_bytes * share)
        self.started_native_bytes = native_bytes - self.tool_native_bytes
        self.started_python_bytes = python_bytes - self.tool_python_bytes
        # a few packages are imported by site's .pth files; more means that we started late
        installed = {*filter(None, map(_installed_top, list(sys.modules)))}
        self.saw_start = len(installed) <= 5 and "numpy" not in installed
        self._stack = threading.local()
        self._owner: int | None = None
        self._mark = (0, 0)

    @property
    def is_busy(self) -> bool:
        """Whether some thread is importing."""
        return self._owner is not None

    def enter(self, package: str) -> None:
        """An import of `package` begins: growth so far belongs to the outer import."""
        frames = self._frames()
        if frames and frames[-1] == package:
            frames.append(package)
            return
        with suppress(Exception):  # its cost does not justify an import of our own
            self._settle(frames)
        frames.append(package)

    def leave(self) -> None:
        frames = self._frames()
        if len(frames) == 1 or frames[-1] != frames[-2]:
            with suppress(Exception):
                self._settle(frames)
        frames.pop()
        if not frames and self._owner == threading.get_ident():
            self._owner = None

    def _settle(self, frames: list[str]) -> None:
        now = (_native_in_use(), _python_in_use())
        if frames:
            # imports in two threads at a time would count twice: only the first one counts
            if self._owner == threading.get_ident():
                cost = self.costs.setdefault(frames[-1], ImportCost(frames[-1]))
                cost.native_bytes += now[0] - self._mark[0]
                cost.python_bytes += now[1] - self._mark[1]
        elif self._owner is None:
            self._owner = threading.get_ident()
        self._mark = now

    def _frames(self) -> list[str]:
        frames: list[str] | None = getattr(self._stack, "frames", None)
        if frames is None:
            frames = self._stack.frames = []
        return frames


_WRAPPER_SOURCE = """
def _find_and_load(name, import_):
    package = package_of(name)
    if package is None:
        module = original(name, import_)
    else:
        tracker.enter(package)
        try:
            module = original(name, import_)
        finally:
            tracker.leave()
    if name in callbacks:
        run_callback(name)
    return module
"""
_callbacks: dict[str, list[Callable[[Any], None]]] = {}

_tracker: ImportTracker | None = None


def start_tracking() -> ImportTracker:
    """Measure imports from now on; once per process."""
    global _tracker
    if _tracker is None:
        _tracker = ImportTracker()
        bootstrap: Any = importlib._bootstrap
        bootstrap._find_and_load = _wrapped(bootstrap._find_and_load, _tracker)
    return _tracker


def is_importing() -> bool:
    """Whether a package is being imported right now."""
    return _tracker is not None and _tracker.is_busy


def on_import(name: str, callback: Callable[[Any], None]) -> None:
    """Call `callback(module)` once, when the program has imported `name`; at once if it has."""
    if name in sys.modules:
        with suppress(Exception):  # the object may not be what its name says
            callback(sys.modules[name])
    else:
        _callbacks.setdefault(name, []).append(callback)


def _run_callback(name: str) -> None:
    for callback in _callbacks.pop(name, ()):
        # an error of ours must not look like a failed import
        with suppress(Exception):
            callback(sys.modules[name])


def tracker() -> ImportTracker | None:
    """The tracker, if imports are being measured."""
    return _tracker


def _wrapped(original: Callable[..., Any], watching: ImportTracker) -> Callable[..., Any]:
    # compiled under importlib's own file name: CPython strips those frames from tracebacks
    # (remove_importlib_frames in Python/import.c), so an ImportError looks as it always did
    code = compile(_WRAPPER_SOURCE, "<frozen importlib._bootstrap>", "exec")
    scope: dict[str, Any] = {
        "original": original,
        "tracker": watching,
        "package_of": _package_of,
        "callbacks": _callbacks,
        "run_callback": _run_callback,
    }
    exec(code, scope)
    wrapper: Callable[..., Any] = scope["_find_and_load"]
    return wrapper


def _package_of(name: str) -> str | None:
    top = name.partition(".")[0]
    return None if top in _STDLIB else top


def installed_costs(watching: ImportTracker) -> list[ImportCost]:
    """Costs of installed packages; data in the user's modules is booked to its owners."""
    return [
        cost
        for cost in list(watching.costs.values())
        if cost.package in sys.modules  # not if the import failed
        and not is_user_file(text_of(sys.modules[cost.package], "__file__"))
    ]
