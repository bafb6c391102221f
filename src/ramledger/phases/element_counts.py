"""How many elements each phase adds to the largest containers.

RSS grows where pages are first touched, which may be in another phase: objects that stay first
fill holes that another phase left. Containers are looked up by path each time: none is kept alive.
"""

import os
import re
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from ramledger.interpreter.attributes import (
    container_kind,
    container_length,
    elements,
    is_class,
    own_fields,
)
from ramledger.interpreter.frames import frame_locals
from ramledger.interpreter.loaded_modules import namespace, text_of
from ramledger.interpreter.type_facts import namespace_of
from ramledger.interpreter.user_code import user_modules

MOST_PATHS = 4
_SHARE = 0.002  # of the time, at most
_CREDIT_SECONDS = 0.01
_MOST_ELEMENTS = (
    64  # containers with so many elements at most: the elements of these are counted, too
)
_MAX_DEPTH = 60
_PATH = re.compile(r"([^:]+):([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*|\['[^']*'\]|\[\d+\]|\[\*\])*)")
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['([^']*)'\]|\[(\d+)\]|(\[\*\])")


class ElementCounts:
    """Counts elements of containers whenever a phase of one thread starts or ends."""

    def __init__(self) -> None:
        self._paths: dict[str, _Path] = {}
        self._last: dict[str, int] = {}
        self._added: dict[str, Counter[str]] = defaultdict(Counter)
        self._is_on = False
        self._born = time.perf_counter()
        self._spent_seconds = 0.0

    def follow(self, found_at: Mapping[str, str]) -> None:
        """Count the elements of these from now on: names, and the variables that lead to them."""
        known = {
            name: _Path(*found.groups())
            for name, access in found_at.items()
            if (found := _PATH.fullmatch(access))
        }
        self._paths = dict(list(known.items())[:MOST_PATHS])
        self._last = {}

    def count(self, phase: str, *, outermost: bool) -> None:
        """Count now; `phase` ran since the last call, '' between phases."""
        began = time.perf_counter()
        if outermost:
            allowed = _CREDIT_SECONDS + _SHARE * (began - self._born)
            self._is_on = bool(self._paths) and self._spent_seconds <= allowed
        if not self._is_on:
            self._last = {}
            return
        lengths = _lengths(self._paths)
        for path, length in lengths.items():
            if length > self._last.get(path, length):
                self._added[path][phase] += length - self._last[path]
        self._last = lengths
        self._spent_seconds += time.perf_counter() - began

    def take(self) -> dict[str, dict[str, int]]:
        """Elements added since the last call, by path and phase."""
        taken, self._added = self._added, defaultdict(Counter)
        return {path: dict(by_phase) for path, by_phase in taken.items()}


class _Path:
    """`train.py:main.agent.log['loss']`: a file, a function or global, and the steps from there."""

    def __init__(self, file: str, name: str, rest: str) -> None:
        self.file, self.name = file, name
        self.steps = [found.groups() for found in _STEP.finditer(rest)]
        found = [text_of(module, "__name__") for module in user_modules() if _is_of(module, file)]
        self.module = found[0] if found else ""


def _is_of(module: types.ModuleType, file: str) -> bool:
    return os.path.basename(text_of(module, "__file__") or text_of(module, "__name__")) == file


def _lengths(paths: Mapping[str, _Path]) -> dict[str, int]:
    locals_of = _frames({(path.file, path.name) for path in paths.values()})
    found = {}
    for text, path in paths.items():
        length = _length(path, locals_of)
        if length is not None:
            found[text] = length
    return found


def _frames(wanted: set[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Locals of those functions of the calling thread with which paths begin."""
    names = {name for _, name in wanted}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    frame: types.FrameType | None = sys._getframe(1)
    depth = 0
    while frame is not None and depth < _MAX_DEPTH:
        code = frame.f_code
        if code.co_name in names:
            key = (os.path.basename(code.co_filename), code.co_name)
            if key in wanted and key not in found:
                found[key] = dict(frame_locals(frame))
        frame = frame.f_back
        depth += 1
    return found


def _length(path: _Path, locals_of: Mapping[tuple[str, str], dict[str, Any]]) -> int | None:
    steps = path.steps
    names: Mapping[str, Any] | None = locals_of.get((path.file, path.name))
    if names is not None and steps and steps[0][0] in names:
        objects, steps = [names[steps[0][0]]], steps[1:]
    else:
        names = namespace(sys.modules.get(path.module))
        objects = [names[path.name]] if path.name in names else []
    for step in steps:
        objects = [inner for one in objects for inner in _follow(one, step)]
    counted = [length for one in objects if (length := _elements(one)) is not None]
    return sum(counted) if counted else None


def _follow(obj: Any, step: tuple[str | None, ...]) -> list[Any]:
    attribute, key, number, every = step
    if every:
        length = container_length(obj)
        return (
            elements(obj, _MOST_ELEMENTS) if length is not None and length <= _MOST_ELEMENTS else []
        )
    if attribute is not None:
        fields = namespace_of(obj) if is_class(obj) else own_fields(obj)
        return [fields[attribute]] if attribute in fields else []
    name: Any = key if key is not None else int(number or 0)
    is_there = container_kind(type(obj)) is dict and dict.__contains__(obj, name)
    return [dict.__getitem__(obj, name)] if is_there else []


def _elements(obj: Any) -> int | None:
    """How many elements it has; if few, with the elements of these."""
    length = container_length(obj)
    if length is None or length > _MOST_ELEMENTS:
        return length
    return length + sum(container_length(one) or 0 for one in elements(obj, _MOST_ELEMENTS))
