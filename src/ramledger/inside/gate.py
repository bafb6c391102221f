"""Keeps os.fork() waiting while we import or work in another thread of this process.

A child forked while a thread imports a module inherits that module's import lock, held by a thread
that the child does not have: importing it there would wait forever. Loaded before all else of ours,
so this module imports nothing that an interpreter has not loaded at its start.
"""

import _thread
import os

_LONGEST_WAIT_SECONDS = 5.0


class ForkGate:
    """`with GATE:` around work; a fork waits for its end, but never longer than five seconds."""

    def __init__(self) -> None:
        self._lock = _thread.RLock()
        self._closed_by = 0
        os.register_at_fork(
            before=self._close, after_in_parent=self._open, after_in_child=self._renew
        )

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _close(self) -> None:
        if self._lock.acquire(timeout=_LONGEST_WAIT_SECONDS):
            self._closed_by = _thread.get_ident()

    def _open(self) -> None:
        if self._closed_by == _thread.get_ident():
            self._closed_by = 0
            self._lock.release()

    def _renew(self) -> None:
        self._lock = _thread.RLock()
        self._closed_by = 0


GATE = ForkGate()
