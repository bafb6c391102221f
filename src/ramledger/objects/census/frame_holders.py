"""Objects that keep a frame or a traceback, and with it all locals of its functions."""

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
    """By class, how many instances keep a frame; an object walk does not enter frames."""
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
