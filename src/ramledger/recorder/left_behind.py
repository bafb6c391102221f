"""Ends whatever a command leaves running, daemons included: they become children of ours."""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ramledger.errors import MeasureError
from ramledger.measure import proc
from ramledger.measure.known_process import KnownProcess

_SET_SUBREAPER, _GET_SUBREAPER = 36, 37  # prctl(2)
_GRACE_SECONDS = 2.0


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """What is started inside, and what that starts, is gone at the end: SIGTERM, then SIGKILL."""
    before = set(_children())
    was_subreaper = _set_subreaper(True)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            _end(before, number)
        _set_subreaper(was_subreaper)


def _end(before: set[KnownProcess], number: int) -> None:
    """Signal all new children until there are none: those of the ended become ours in turn."""
    deadline = time.monotonic() + _GRACE_SECONDS
    told: set[KnownProcess] = set()
    while time.monotonic() < deadline:
        left = set(_children()) - before
        if not left:
            return
        for one in left - told:
            one.send(number)
        told |= left
        for one in left:
            with suppress(ChildProcessError):
                os.waitpid(one.pid, os.WNOHANG)
        time.sleep(0.02)


def _children() -> list[KnownProcess]:
    found = []
    for pid in proc.process_ids():
        with suppress(MeasureError):
            if proc.read_stat(pid).parent_pid == os.getpid():
                found.append(KnownProcess.of(pid))
    return found


def _set_subreaper(wanted: bool) -> bool:
    """Whether orphans below us become our children; returns how it was."""
    with suppress(OSError, AttributeError):
        prctl = ctypes.CDLL(None).prctl
        now = ctypes.c_int(0)
        prctl(_GET_SUBREAPER, ctypes.byref(now), 0, 0, 0)
        prctl(_SET_SUBREAPER, int(wanted), 0, 0, 0)
        return bool(now.value)
    return False
