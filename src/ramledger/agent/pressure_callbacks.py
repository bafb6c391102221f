"""Callbacks for the moment before the limit, run in the main thread between two bytecodes.

That is where a signal handler would run: no data race with the training. A main thread that is
stuck in native code does not get there; then they run in the thread that asked.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Callback = Callable[[], Any]

_callbacks: list[Callback] = []
_PENDING_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_kept: list[Any] = []  # what C may still call must stay alive


def on_pressure(callback: Callback) -> Callback:
    """Register what to do when memory runs out: save a checkpoint, drop a cache."""
    if callback not in _callbacks:
        _callbacks.append(callback)
    return callback


def run_callbacks(seconds: float) -> int:
    """Run all callbacks and return how many ran to their end; never raises."""
    done: list[int] = []
    finished = threading.Event()

    def run() -> None:
        for callback in list(_callbacks):
            with suppress(Exception):
                callback()
                done.append(1)
        finished.set()

    if not _callbacks:
        return 0
    if threading.current_thread() is threading.main_thread():
        run()
    else:
        _run_in_main_thread(run, finished, seconds)
    return len(done)


def _run_in_main_thread(run: Callable[[], None], finished: threading.Event, seconds: float) -> None:
    started = threading.Event()

    def once() -> None:
        if not started.is_set():
            started.set()
            run()

    def pending(_: Any) -> int:
        once()
        return 0

    call = _PENDING_CALL(pending)
    _kept.append(call)
    deadline = time.monotonic() + seconds
    if ctypes.pythonapi.Py_AddPendingCall(call, None) == 0:
        started.wait(max(0.0, seconds / 2))
    once()
    finished.wait(max(0.0, deadline - time.monotonic()))
