"""One thread that answers questions about this process over a socket that only its user can reach.

It sleeps in the kernel between questions, is not seen by `threading`, keeps nothing from ending and
never raises or prints. A forked child forgets it. One line of JSON asks, one JSON document answers;
the verb "ping" is always there: {"pid", "python", "rss_bytes"}.
"""

import _thread
import atexit
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ramledger.inside.gate import GATE, wait_for_end

Handler = Callable[[dict[str, Any]], dict[str, Any]]

_LARGEST_REQUEST_BYTES = 64 * 1024
_LARGEST_REPLY_BYTES = 64 * 1024 * 1024
_CLIENT_SECONDS = 10.0
_REST_AFTER_TROUBLE_SECONDS = 1.0
_STEP_ASIDE_SECONDS = 5.0
_START_SECONDS = 1.0
_LONGEST_DIRECTORY = 60  # a socket's path has 108 bytes, and is also reached as /proc/PID/root/...
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}


class _Agent:
    """The sockets and the thread of this process, if it listens."""

    def __init__(self) -> None:
        self.listener: socket.socket | None = None
        self.client: socket.socket | None = None
        self.path = ""
        self._pid = 0
        self._thread_id = 0
        self._wake = -1
        os.register_at_fork(
            before=self._step_aside, after_in_parent=self._come_back, after_in_child=self._forget
        )
        atexit.register(self._remove)

    def open(self) -> str:
        """Listen, once a process; the path of the socket."""
        if self.listener is None:
            path = os.path.join(own_directory(), f"{os.getpid()}.sock")
            remove_stale_sockets(os.path.dirname(path))
            listener = _listen(path)
            try:
                self._start_thread(listener)
            except (OSError, RuntimeError):
                listener.close()
                os.unlink(path)
                raise
            self.listener, self.path, self._pid = listener, path, os.getpid()
        return self.path

    def _start_thread(self, listener: socket.socket) -> None:
        self._wake = os.eventfd(0)
        is_up = _thread.allocate_lock()
        is_up.acquire()
        try:
            _thread.start_new_thread(self._serve, (listener, self._wake, is_up))
        except RuntimeError:
            os.close(self._wake)
            raise
        is_up.acquire(timeout=_START_SECONDS)  # a fork may be next, and has to know the thread

    def _serve(self, listener: socket.socket, wake: int, is_up: _thread.LockType) -> None:
        """The thread: wait for clients, until `wake` is set."""
        with suppress(BaseException):  # at the end of the interpreter anything may be raised
            self._thread_id = _thread.get_native_id()
            is_up.release()
            _be_discreet()
            poll = select.poll()
            poll.register(listener, select.POLLIN)
            poll.register(wake, select.POLLIN)
            while True:
                ready = dict(poll.poll(_TICK.milliseconds))
                if wake in ready:
                    break
                _TICK.run_if_due()
                if not ready:
                    continue
                try:
                    client = listener.accept()[0]
                except BlockingIOError:
                    continue
                except OSError:
                    time.sleep(1.0)  # no descriptors left, or the like
                    continue
                self.client = client
                with client, suppress(Exception):
                    _answer(client)
                    client.shutdown(socket.SHUT_RDWR)  # also if a forked child still holds it
                self.client = None
            os.close(wake)

    def _step_aside(self) -> None:
        """Before a fork: the agent's thread must not be what makes Python warn of threads."""
        with suppress(Exception):
            if self.listener and GATE.is_fork_single_threaded(self._thread_id):
                os.eventfd_write(self._wake, 1)
                wait_for_end(self._thread_id, _STEP_ASIDE_SECONDS)
                self._wake = -1

    def _come_back(self) -> None:
        with suppress(Exception):
            if self.listener is not None and self._wake == -1:
                self._start_thread(self.listener)

    def _forget(self) -> None:
        """In a forked child: all this is the parent's."""
        with suppress(Exception):
            for inherited in (self.listener, self.client):
                if inherited is not None:
                    inherited.close()
            if self._wake != -1:
                os.close(self._wake)
        self.listener = self.client = None
        self._wake = -1

    def _remove(self) -> None:
        """At exit: nobody can ask any more. The pid tells a child that C code has forked."""
        if self.listener is not None and self._pid == os.getpid():
            with suppress(OSError):
                os.unlink(self.path)


class _Tick:
    """What the agent's thread does between questions, if anything."""

    def __init__(self) -> None:
        self._function: Callable[[], float] | None = None
        self._due = 0.0

    def set(self, function: Callable[[], float]) -> None:
        self._function = function

    @property
    def milliseconds(self) -> float | None:
        if self._function is None:
            return None
        return max(0.0, self._due - time.monotonic()) * 1000

    def run_if_due(self) -> None:
        if self._function is not None and time.monotonic() >= self._due:
            rest = _REST_AFTER_TROUBLE_SECONDS
            with suppress(Exception), GATE:
                rest = self._function()
            self._due = time.monotonic() + rest


_TICK = _Tick()
_AGENT = _Agent()
_HANDLERS: dict[str, Handler] = {}


def start_agent() -> None:
    """Answer questions from now on; does nothing if it cannot, or does so already."""
    with suppress(Exception):
        open_agent()


def open_agent() -> str:
    """Like start_agent, but returns the socket's path, or raises OSError or RuntimeError."""
    with GATE:
        return _AGENT.open()


def between_questions(function: Callable[[], float]) -> None:
    """Let the agent's thread call `function` again and again, after the rest that it returns."""
    _TICK.set(function)


def register_handler(verb: str, function: Handler) -> None:
    """Answer requests with this verb by `function(request)`; a later one replaces an earlier."""
    _HANDLERS[verb] = function


def socket_path(pid: int) -> str:
    """Where the agent of a process listens, or would listen."""
    paths = socket_paths(pid)
    return next((path for path in paths if os.path.exists(path)), paths[0])


def socket_paths(pid: int) -> list[str]:
    """All places where the agent of a process may listen, as that process names them."""
    user, inner_pid, runtime = os.geteuid(), pid, os.environ.get("XDG_RUNTIME_DIR", "")
    if pid != os.getpid():
        user, inner_pid = _user_and_inner_pid(pid)
        runtime = _runtime_directory(pid)
    return [f"{folder}/{inner_pid}.sock" for folder in _directories(user, runtime)]


def _directories(user: int, runtime: str) -> list[str]:
    fallback = f"/tmp/ramledger-{user}"
    if os.path.isabs(runtime) and len(runtime) <= _LONGEST_DIRECTORY:
        return [os.path.join(runtime, "ramledger"), fallback]
    return [fallback]


def _user_and_inner_pid(pid: int) -> tuple[int, int]:
    """The effective user of a process, and its pid as it sees it itself, in a container."""
    user, inner_pid = os.geteuid(), pid
    # without an answer it is gone or hidden, and there is nothing at the path either
    with suppress(OSError), open(f"/proc/{pid:d}/status", encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("Uid:"):
                user = int(line.split()[2])
            elif line.startswith("NSpid:"):
                inner_pid = int(line.split()[-1])
    return user, inner_pid


def _runtime_directory(pid: int) -> str:
    name = b"XDG_RUNTIME_DIR="
    with suppress(OSError), open(f"/proc/{pid:d}/environ", "rb") as file:
        for variable in file.read().split(b"\0"):
            if variable.startswith(name):
                return os.fsdecode(variable.removeprefix(name))
    return ""


def own_directory() -> str:
    """A directory of ours that nobody else can enter, in the first place that allows it."""
    *preferred, fallback = _directories(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR", ""))
    for folder in preferred:
        with suppress(OSError):
            _make_private(folder)
            return folder
    _make_private(fallback)
    return fallback


def _make_private(folder: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a directory of this user")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _listen(path: str) -> socket.socket:
    if _is_listening(path):
        raise OSError(f"{path} is in use by another process")
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(8)
    except OSError:
        listener.close()
        raise
    return listener


def remove_stale_sockets(folder: str) -> None:
    """Remove what killed processes left behind."""
    for name in os.listdir(folder):
        pid, _, suffix = name.partition(".")
        path = os.path.join(folder, name)
        # not in our /proc: dead, or in another container that shares this folder
        if suffix == "sock" and not os.path.exists(f"/proc/{pid}") and not _is_listening(path):
            with suppress(OSError):
                os.unlink(path)


def _is_listening(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        try:
            client.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _be_discreet() -> None:
    """Leave the program's signals to its own threads, and carry a name: see ps -L."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
    comm = f"/proc/self/task/{_thread.get_native_id()}/comm"
    with suppress(OSError), open(comm, "wb", buffering=0) as file:
        file.write(b"ramledger")


def _answer(client: socket.socket) -> None:
    client.settimeout(_CLIENT_SECONDS)
    if not _is_friend(client):
        return
    line = _read_line(client)
    if line:
        with GATE:  # sent before the interpreter may end
            client.sendall(_encoded_reply(line))


def _is_friend(client: socket.socket) -> bool:
    """Whether it is this user or root who asks."""
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    user: int = struct.unpack("3i", credentials)[1]
    return user in (os.geteuid(), 0)


def _read_line(client: socket.socket) -> bytes:
    """One line, or nothing if it is too long, too slow or unfinished."""
    line = b""
    deadline = time.monotonic() + _CLIENT_SECONDS
    while not line.endswith(b"\n"):
        part = client.recv(4096)
        line += part
        if not part or len(line) > _LARGEST_REQUEST_BYTES or time.monotonic() > deadline:
            return b""
    return line


def _encoded_reply(line: bytes) -> bytes:
    try:
        reply = json.dumps(_reply(json.loads(line))).encode()
    except Exception as error:
        reply = json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
    if len(reply) > _LARGEST_REPLY_BYTES:
        reply = json.dumps({"error": f"the reply has {len(reply)} bytes, too many"}).encode()
    return reply


def _reply(request: Any) -> dict[str, Any]:
    if not isinstance(request, dict):
        return {"error": "a request is a JSON object"}
    verb = request.get("verb")
    handler = _HANDLERS.get(verb) if isinstance(verb, str) else None
    if handler is None:
        return {"error": f"unknown verb {verb!r}"}
    return handler(request)


def _ping(_: dict[str, Any]) -> dict[str, Any]:
    with open("/proc/self/statm", "rb") as file:
        resident_pages = int(file.read().split()[1])
    return {
        "pid": os.getpid(),
        "python": sys.version.split()[0],
        "rss_bytes": resident_pages * os.sysconf("SC_PAGE_SIZE"),
    }


register_handler("ping", _ping)
