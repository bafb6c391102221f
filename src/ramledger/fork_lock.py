"""Locks that are free in a forked child: the thread that held one does not exist there."""

import os
import threading
import weakref
from typing import Any


class ForkLock:
    """A reentrant lock. A thread that holds it when it forks also holds it in the child."""

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        _LOCKS.append(weakref.ref(self))

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """In a forked child: replace the lock if a thread that is gone held it."""
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
