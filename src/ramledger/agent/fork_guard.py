"""Keeps os.fork() and the end of the interpreter waiting while a thread of ours works.

A child forked while a thread imports a module inherits that module's import lock, held by a thread
that the child does not have: importing it there would wait forever. An interpreter that ends frees
its import lock under a thread that waits for it. Loaded first, hence imports almost nothing.
"""

import _thread
import atexit
import os
import sys
import time

_LONGEST_WAIT_SECONDS = 5.0
_ENDING_SECONDS = 0.2
_POLL_SECONDS = 0.0002


class ForkGate:
    """`with GATE:` around work; fork and exit wait for its end, but never more than 5 seconds."""

    def __init__(self) -> None:
        self._lock = _thread.RLock()
        self._closed_by = 0
        self._ending_thread = 0
        os.register_at_fork(
            before=self._close, after_in_parent=self._open, after_in_child=self._renew
        )
        atexit.register(self._close_for_good)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def announce_end(self) -> None:
        """This thread is about to end: a fork that waits at the gate waits for that too."""
        self._ending_thread = _thread.get_native_id()

    def is_fork_single_threaded(self, our_thread: int) -> bool:
        """Whether but for our own threads there is only the one that forks.

        From Python 3.12 on os.fork() warns of other threads: none must be ours alone.
        """
        if sys.version_info < (3, 12):
            return False
        threads = {int(name) for name in os.listdir("/proc/self/task")}
        return threads <= {_thread.get_native_id(), self._ending_thread, our_thread}

    def _close_for_good(self) -> None:
        self._lock.acquire(timeout=_LONGEST_WAIT_SECONDS)

    def _close(self) -> None:
        if self._lock.acquire(timeout=_LONGEST_WAIT_SECONDS):
            self._closed_by = _thread.get_ident()
        if self._ending_thread and self.is_fork_single_threaded(0):
            wait_for_end(self._ending_thread, _ENDING_SECONDS)
        self._ending_thread = 0

    def _open(self) -> None:
        if self._closed_by == _thread.get_ident():
            self._closed_by = 0
            self._lock.release()

    def _renew(self) -> None:
        self._lock = _thread.RLock()
        self._closed_by = self._ending_thread = 0


def wait_for_end(thread_id: int, seconds: float) -> None:
    """Wait until a thread of this process has ended, as the kernel counts."""
    deadline = time.monotonic() + seconds
    while os.path.exists(f"/proc/self/task/{thread_id}") and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


GATE = ForkGate()
