"""How the next trial is started: afresh, or forked from a server that has its libraries loaded.

A server has only what trials of this objective loaded themselves, so a warm trial holds what a
fresh one would. It is the one that multiprocessing has for a program: if the program uses it
already, it is left alone and trials are started afresh.
"""

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterable
from multiprocessing import forkserver
from multiprocessing.context import BaseContext

from ramledger.descriptors import OwnedDescriptor
from ramledger.integrations.trials.fork_server import CHANNEL, UNSAFE

_PRELOAD = "ramledger.integrations.trials.fork_server"
_DEFAULT_PRELOAD = ["__main__"]  # of multiprocessing

Objective = tuple[str, str]  # module and qualified name


class Warmth:
    """What trials loaded so far, and the server that has it, if there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._learned: dict[Objective, dict[str, None]] = {}
        self._told: dict[str, None] = {}
        self._channel: OwnedDescriptor | None = None
        self._pid = 0
        self.is_off = not sys.platform.startswith("linux")

    def learn(self, objective: Objective, names: Iterable[str]) -> None:
        """A trial of that objective loaded these modules."""
        with self._lock:
            self._learned.setdefault(objective, {}).update(dict.fromkeys(names))

    def context(self, objective: Objective) -> BaseContext:
        """How to start its next trial; the first one is always started afresh."""
        with self._lock:
            method = "forkserver" if self._has_server(objective) else "spawn"
        return multiprocessing.get_context(method)

    def _has_server(self, objective: Objective) -> bool:
        names = self._learned.get(objective, {})
        # libraries of another objective would count as this one's memory
        if self.is_off or not names or self._told.keys() - names.keys():
            return False
        # a process of multiprocessing's own may have its `__main__` only half imported
        if multiprocessing.parent_process() is not None:
            return False
        if UNSAFE.intersection(name.partition(".")[0] for name in names):
            return False
        if not self._pid:
            if not _is_free():
                return False
            self._channel = OwnedDescriptor(os.memfd_create("ramledger-fork-server"))
        elif not self._is_alive():
            return False
        if self._channel is None or not self._channel.is_ours:
            return False
        self._tell(names, self._channel)
        if not self._pid:
            self._start(self._channel)
        return True

    def _tell(self, names: Iterable[str], channel: OwnedDescriptor) -> None:
        news = [name for name in names if name not in self._told]
        self._told.update(dict.fromkeys(news))
        if news:
            os.write(channel.fileno(), "".join(f"{name}\n" for name in news).encode())

    def _start(self, channel: OwnedDescriptor) -> None:
        path = [f"/proc/{os.getpid()}/fd/{channel.fileno()}", *map(str, sys.path)]
        before = os.environ.get(CHANNEL)
        forkserver.set_forkserver_preload([_PRELOAD])
        os.environ[CHANNEL] = os.pathsep.join(path)
        try:
            forkserver.ensure_running()
        finally:
            forkserver.set_forkserver_preload(_DEFAULT_PRELOAD)
            del os.environ[CHANNEL]
            if before is not None:
                os.environ[CHANNEL] = before
        self._pid = _server_pid() or 0
        self.is_off = not self._pid

    def _is_alive(self) -> bool:
        """Whether the server is ours and still there; it is left to multiprocessing to reap it."""
        if _server_pid() != self._pid:
            return False
        try:
            return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False


def _server_pid() -> int | None:
    return getattr(forkserver._forkserver, "_forkserver_pid", None)


def _is_free() -> bool:
    """Whether the program neither has such a server nor has asked for its own modules in it."""
    preload = getattr(forkserver._forkserver, "_preload_modules", None)
    return _server_pid() is None and preload == _DEFAULT_PRELOAD


WARMTH = Warmth()
