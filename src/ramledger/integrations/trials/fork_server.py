"""The server that warm trials are forked from, and what is special in such a trial.

It holds the libraries that trials have loaded, and no module of the user's. Before a fork it loads
the modules that were listed since; once it holds something that must not be forked, it ends, and
trials start from scratch again.
"""

import atexit
import ctypes
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing import reduction
from types import ModuleType
from typing import Any

from ramledger.descriptors import OwnedDescriptor
from ramledger.measure import proc

# the file with names of modules, a line each, and the path on which modules are found
CHANNEL = "RAMLEDGER_FORK_SERVER"
# their threads, connections or devices do not survive a fork
UNSAFE = frozenset(
    {"cudf", "cupy", "grpc", "jax", "jaxlib", "mpi4py", "pycuda", "ray", "tensorflow", "torch_xla"}
)
_OPENED = ("socket:", "/dev/nvidia", "/dev/kfd", "/dev/dri")
_INSTALLED = ("/site-packages/", "/dist-packages/")
_BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
_OURS = __name__.partition(".")[0]

_server: "Server | None" = None  # in the server itself and in what it forks
_loaded_before: frozenset[str] = frozenset()  # by the server, when this process was forked


class Server:
    """The process that is forked. Its hooks are inherited, and do nothing in what it forks."""

    def __init__(self, channel: str, path: list[str]) -> None:
        sys.path[:] = path
        self._pid = os.getpid()
        self._channel = OwnedDescriptor(os.open(channel, os.O_RDONLY | os.O_CLOEXEC))
        self._read_bytes = 0
        self.file_bytes = 0
        atexit.register(self._vanish)  # after all that libraries register
        self.grow()
        os.register_at_fork(before=self.grow, after_in_child=self.begin_child)

    def grow(self) -> None:
        """Load the modules that were listed since the last time."""
        if os.getpid() != self._pid or not self._channel.is_ours:
            return
        text = os.pread(self._channel.fileno(), 1 << 24, self._read_bytes)
        if not text:
            return
        self._read_bytes += len(text)
        opened = open_resources()
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for name in text.decode().split():
            with suppress(Exception, SystemExit):
                import_module(name)
        signal.signal(signal.SIGINT, interrupted)
        if UNSAFE & sys.modules.keys() or open_resources() - opened or has_threads():
            os._exit(1)
        gc.collect()
        gc.freeze()  # a collection in a trial would copy the pages of all that is here
        self.file_bytes = proc.status_bytes(proc.read_status(self._pid), "RssFile")

    def _vanish(self) -> None:
        """Nothing here needs the end of an interpreter, which takes seconds with torch."""
        if os.getpid() == self._pid:
            os._exit(0)

    def begin_child(self) -> None:
        """A trial draws its own numbers, as one that imports numpy itself does."""
        global _loaded_before
        if not self._pid:  # forked by a trial
            return
        self._pid = 0
        _loaded_before = frozenset(sys.modules)
        numpy_random: Any = sys.modules.get("numpy.random")
        if numpy_random is not None:
            numpy_random.seed()


def serve() -> None:
    """In a server with a list of modules: load them all."""
    global _server
    if CHANNEL in os.environ and _server is None:
        channel, *path = os.environ.pop(CHANNEL).split(os.pathsep)
        _server = Server(channel, path)


def open_resources() -> set[str]:
    """Connections and devices that this process has open."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {name for name in found if name.startswith(_OPENED)}


def has_threads() -> bool:
    """Whether a fork leaves threads behind: those of OpenBLAS end by themselves before one."""
    if threading.active_count() > 1:
        return True
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return len(os.listdir("/proc/self/task")) > 1


# ---- in a trial --------------------------------------------------------------------------------


def is_warm() -> bool:
    """Whether this process was forked from a server."""
    return bool(_loaded_before)


def library_bytes() -> int:
    """Pages of files that the server has in memory; a process forked from it maps few of them."""
    return _server.file_bytes if _server is not None else 0


def own_peak_bytes() -> int:
    """The most that this process has held, pages of the server's files included."""
    status = proc.read_status(os.getpid())
    unmapped_bytes = max(0, library_bytes() - proc.status_bytes(status, "RssFile"))
    return proc.status_bytes(status, "VmHWM") + unmapped_bytes


def libraries(own_package: str) -> list[str]:
    """Installed modules that this process has loaded and its server had not, in their order."""
    return [
        name
        for name, module in list(sys.modules.items())
        if name not in _loaded_before and _is_library(name, module, own_package)
    ]


def _is_library(name: str, module: ModuleType, own_package: str) -> bool:
    package = name.partition(".")[0]
    if package == own_package or package.startswith("__") or name.endswith(".__main__"):
        return False
    if package == _OURS:
        return True
    origin = getattr(getattr(module, "__spec__", None), "origin", None) or ""
    return any(part in origin for part in _INSTALLED)


class Inherited(str):
    """The name of a process, which brings what a fresh one would inherit from its parent.

    The name is unpickled before any module of the user's is imported, and again afterwards:
    then it must not undo what they have set.
    """

    is_sent = False

    def __reduce__(self) -> tuple[Callable[..., str], tuple[Any, ...]]:
        if self.is_sent:
            return str, (str(self),)
        self.is_sent = True
        mask = os.umask(0)
        os.umask(mask)
        outputs = {fd: reduction.DupFd(fd) for fd in (1, 2) if _is_open(fd)}
        return _inherit, (str(self), dict(os.environ), mask, outputs)


def _inherit(name: str, environment: dict[str, str], mask: int, outputs: dict[int, Any]) -> str:
    for gone in os.environ.keys() - environment.keys():
        del os.environ[gone]
    for key, value in environment.items():
        if os.environ.get(key) != value:
            os.environ[key] = value
    os.umask(mask)
    for fd, given in outputs.items():
        fresh = given.detach()
        os.dup2(fresh, fd)
        os.close(fresh)
    return name


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def leave() -> None:
    """What the end of an interpreter does for a program; a forked process is just gone."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    gc.collect()
    for found in gc.get_objects():
        if issubclass(type(found), _BUFFERED):
            with suppress(Exception):
                found.flush()
    ctypes.CDLL(None).fflush(None)


serve()
