"""Objects that keep a frame or a traceback, and so every local of the functions they came from."""

import types
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ramledger.interpreter.attributes import own_fields
from ramledger.interpreter.type_facts import type_name

_MAX_OBJECTS = 2_000
_FRAMES = (types.FrameType, types.TracebackType)
_traceback: Any = BaseException.__dict__["__traceback__"]


def frame_holders(objects: Iterable[Any]) -> dict[str, int]:
    """How many instances of each class keep one; what frames hold no walk of ours reaches."""
    found: Counter[str] = Counter()
    for number, obj in enumerate(objects):
        if number >= _MAX_OBJECTS:
            break
        if _keeps_frame(obj):
            found[type_name(type(obj))] += 1
    return dict(found)


def _keeps_frame(obj: Any) -> bool:
    if issubclass(type(obj), BaseException) and _traceback.__get__(obj) is not None:
        return True
    return any(type(value) in _FRAMES for value in own_fields(obj).values())
