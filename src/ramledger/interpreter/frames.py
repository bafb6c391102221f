"""Locals of running frames, read without changing the frames.

Before 3.13, `frame.f_locals` fills a dictionary that stays with the frame and keeps every local
alive (PEP 667), and it is the same dictionary that `locals()` returns. So it is read only where
none exists yet, and emptied again.
"""

import inspect
import os
import sys
import threading
import types
from typing import Any

from ramledger.interpreter.own_memory import OwnMemory

# frame->f_frame->f_locals: Include/internal/pycore_frame.h of 3.11 and 3.12
_F_FRAME = 24
_F_LOCALS = {(3, 11): 24, (3, 12): 40}.get(sys.version_info[:2])
OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_MA_USED = 16  # PyDictObject: the number of items


def running_frames() -> list[types.FrameType]:
    """Every frame of every thread except our own frames: the main thread first, outermost first.

    A frame that one of its own locals refers to stays alive after its function returns, until the
    next garbage collection. So our frames are left out, and no local here refers to a frame.
    """
    found: list[types.FrameType] = []
    innermost = sys._current_frames()
    main = threading.main_thread().ident
    for thread in sorted(innermost, key=lambda ident: ident != main):
        begin = len(found)
        walk: types.FrameType | None = innermost[thread]
        while walk is not None:
            if not walk.f_code.co_filename.startswith(OURS):
                found.append(walk)
            walk = walk.f_back
        found[begin:] = reversed(found[begin:])
    innermost.clear()
    return found


def frame_locals(frame: types.FrameType) -> list[tuple[str, Any]]:
    """Names and values of a function's locals; nothing for modules and class bodies."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []
    if sys.version_info >= (3, 13):
        return list(frame.f_locals.items())
    if _has_snapshot(frame):
        return []
    snapshot = frame.f_locals
    found = list(snapshot.items())
    snapshot.clear()
    return found


def _has_snapshot(frame: types.FrameType) -> bool:
    """Whether `locals()` or a debugger has already created the frame's dictionary.

    Read as memory: another thread may end the frame meanwhile, and reading a stale address must be
    an error, not a crash.
    """
    if _F_LOCALS is None:
        return True
    try:
        with OwnMemory() as memory:
            read = memory.reader()
            (inner,) = read(id(frame) + _F_FRAME, 1)
            (found,) = read(inner + _F_LOCALS, 1)
            # an empty one is left from our own last read
            return found != 0 and read(found + _MA_USED, 1) != (0,)
    except OSError:
        return True
