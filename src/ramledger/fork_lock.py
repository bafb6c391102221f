"""Locks that a forked child finds open: the thread that held one in the parent is not there."""

import os
import threading
import weakref
from typing import Any


class ForkLock:
    """A reentrant lock. A thread that forks while it holds it holds it in the child, too."""

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        _LOCKS.append(weakref.ref(self))

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """In a forked child: nobody else is there to release it."""
        if not self._lock._is_owned():
            self._lock = threading.RLock()


_LOCKS: list["weakref.ref[ForkLock]"] = []


def _renew_all() -> None:
    _LOCKS[:] = [reference for reference in _LOCKS if reference() is not None]
    for reference in _LOCKS:
        lock = reference()
        if lock is not None:
            lock.renew()


os.register_at_fork(after_in_child=_renew_all)
