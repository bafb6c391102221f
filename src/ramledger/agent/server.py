"""One thread that answers questions about this process over a socket that only its user can reach.

It sleeps in the kernel between questions, is not seen by `threading`, keeps nothing from ending and
never raises or prints. A forked child forgets it. One line of JSON asks, one JSON document answers;
the verb "ping" is always there: {"pid", "python", "rss_bytes"}.
"""

import _thread
import atexit
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ramledger.agent.fork_guard import GATE, wait_for_end
from ramledger.agent.owned_socket import OwnedSocket
from ramledger.descriptors import (
    StandardStreams,
    WakeDescriptor,
    open_kernel_file,
    read_kernel_file,
    ready_among,
)

Made = TypeVar("Made")
Handler = Callable[[dict[str, Any]], dict[str, Any]]

_LARGEST_REQUEST_BYTES = 64 * 1024
_LARGEST_REPLY_BYTES = 64 * 1024 * 1024
_CLIENT_SECONDS = 10.0
_REST_AFTER_TROUBLE_SECONDS = 1.0
_STEP_ASIDE_SECONDS = 5.0
_START_SECONDS = 1.0
_END_SECONDS, _END_POLL_SECONDS = 1.0, 0.0005
_BACKLOG = 8
_PROBE_SECONDS = 1.0
_LONGEST_REST_SECONDS = 60.0
_UNSETTLED_SECONDS = 0.05
_CHECK_SECONDS = 5.0
_LONGEST_DIRECTORY = 60  # a socket's path has 108 bytes, and is also reached as /proc/PID/root/...
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}


class _Agent:
    """The sockets and the thread of this process, if it listens.

    The program may close any of them: the thread then opens its own anew, and leaves alone what
    has their numbers.
    """

    def __init__(self) -> None:
        self.listener: OwnedSocket | None = None
        self.client: OwnedSocket | None = None
        self.path = ""
        self._pid = 0
        self._thread_id = 0
        self._wake: WakeDescriptor | None = None
        self._streams = StandardStreams()
        self._rest_seconds = 0.0  # until the next attempt to listen again
        os.register_at_fork(
            before=self._step_aside, after_in_parent=self._come_back, after_in_child=self._forget
        )
        atexit.register(self._remove)

    def open(self) -> str:
        """Listen, once a process; the path of the socket."""
        if self.listener is None:
            path, listener = in_own_directory(_listen_in)
            try:
                self._start_thread(listener)
            except (OSError, RuntimeError):
                listener.close()
                os.unlink(path)
                raise
            self.listener, self.path, self._pid = listener, path, os.getpid()
        return self.path

    def _start_thread(self, listener: OwnedSocket) -> None:
        self._wake = WakeDescriptor.make()
        is_up = _thread.allocate_lock()
        is_up.acquire()
        try:
            _thread.start_new_thread(self._serve, (listener, self._wake, is_up))
        except RuntimeError:
            self._wake.close()
            raise
        is_up.acquire(timeout=_START_SECONDS)  # a fork may be next, and has to know the thread

    def _serve(self, listener: OwnedSocket, wake: WakeDescriptor, is_up: _thread.LockType) -> None:
        """The thread: wait for clients, until `wake` is set."""
        with suppress(BaseException):  # at the end of the interpreter anything may be raised
            self._thread_id = _thread.get_native_id()
            is_up.release()
            _be_discreet()
            while True:
                rest = self._milliseconds(listener)
                ready = ready_among((listener, wake), rest)
                if wake in ready:
                    break
                if not self._streams.are_settled():
                    time.sleep(_UNSETTLED_SECONDS)
                    continue
                _TICK.run_if_due()
                if not (listener.is_ours and wake.is_ours):
                    listener, wake = self._renewed(listener, wake)
                elif listener in ready:
                    self._answer_next(listener)
            wake.close()

    def _milliseconds(self, listener: OwnedSocket) -> float:
        """How long to wait: for the next tick, to listen again, or to see whether to.

        A wait goes by numbers: of what the program puts there nothing that we wait for comes.
        """
        longest = (_CHECK_SECONDS if listener.is_ours else self._rest_seconds) * 1000
        tick = _TICK.milliseconds
        return longest if tick is None else min(longest, tick)

    def _answer_next(self, listener: OwnedSocket) -> None:
        try:
            client = listener.accept()
        except OSError:
            time.sleep(1.0)  # no descriptors left, or the like
            return
        if client is not None:
            self.client = client
            with suppress(Exception):
                _answer(client)
            client.hang_up()  # also if a forked child still holds it
            self.client = None

    def _renewed(
        self, listener: OwnedSocket, wake: WakeDescriptor
    ) -> tuple[OwnedSocket, WakeDescriptor]:
        """What the program has closed, opened again; as it is where that cannot be."""
        with suppress(OSError), GATE:
            if not wake.is_ours:
                wake.close()
                wake = self._wake = WakeDescriptor.make()
            if not listener.is_ours:
                listener.close()
                listener = self.listener = _listen(self.path)
            self._rest_seconds = 0.0
            return listener, wake
        self._rest_seconds = min(max(1.0, 2 * self._rest_seconds), _LONGEST_REST_SECONDS)
        return listener, wake

    def _step_aside(self) -> None:
        """Before a fork: the agent's thread must not be what makes Python warn of threads."""
        with suppress(Exception):
            if self._wake and GATE.is_fork_single_threaded(self._thread_id):
                self._wake.ring()
                wait_for_end(self._thread_id, _STEP_ASIDE_SECONDS)
                self._wake = None

    def _come_back(self) -> None:
        with suppress(Exception):
            if self.listener is not None and self._wake is None:
                self._start_thread(self.listener)

    def _forget(self) -> None:
        """In a forked child: all this is the parent's, and closed already."""
        self.listener = self.client = self._wake = None

    def _remove(self) -> None:
        """At exit: nobody can ask any more. A child that C code has forked has another pid."""
        if self.listener is not None and self._pid == os.getpid():
            with suppress(OSError):
                os.unlink(self.path)
            with suppress(Exception):
                self._end_thread()

    def _end_thread(self) -> None:
        """A thread that Python's end finds is ended by pthread_exit(), which loads libgcc_s.

        Where that cannot be, in another root directory or without descriptors, glibc aborts.
        """
        if self._wake is not None and self._wake.is_ours:
            threads, deadline = _thread._count(), time.monotonic() + _END_SECONDS
            self._wake.ring()
            while _thread._count() >= threads and time.monotonic() < deadline:
                time.sleep(_END_POLL_SECONDS)


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
    """Let the agent's thread call `function` repeatedly, after the seconds that it returns."""
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
    """In /dev/shm where /tmp is read-only or full."""
    others = [f"/tmp/ramledger-{user}", f"/dev/shm/ramledger-{user}"]
    if os.path.isabs(runtime) and len(runtime) <= _LONGEST_DIRECTORY:
        return [os.path.join(runtime, "ramledger"), *others]
    return others


def _user_and_inner_pid(pid: int) -> tuple[int, int]:
    """The effective user of a process, and its pid as it sees it itself, in a container."""
    user, inner_pid = os.geteuid(), pid
    # without an answer it is gone or hidden, and there is nothing at the path either
    with suppress(OSError):
        for line in read_kernel_file(f"/proc/{pid:d}/status").splitlines():
            if line.startswith(b"Uid:"):
                user = int(line.split()[2])
            elif line.startswith(b"NSpid:"):
                inner_pid = int(line.split()[-1])
    return user, inner_pid


def _runtime_directory(pid: int) -> str:
    name = b"XDG_RUNTIME_DIR="
    with suppress(OSError):
        for variable in read_kernel_file(f"/proc/{pid:d}/environ").split(b"\0"):
            if variable.startswith(name):
                return os.fsdecode(variable.removeprefix(name))
    return ""


def in_own_directory(make: Callable[[str], Made]) -> Made:
    """`make(folder)` in a folder that nobody else can enter, in the first place where both work."""
    trouble = OSError()
    for folder in _directories(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR", "")):
        try:
            _make_private(folder)
            remove_stale_sockets(folder)
            return make(folder)
        except OSError as error:  # read-only, or full
            trouble = error
    raise trouble


def _make_private(folder: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a directory of this user")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _listen_in(folder: str) -> tuple[str, OwnedSocket]:
    path = os.path.join(folder, f"{os.getpid()}.sock")
    return path, _listen(path)


def _listen(path: str) -> OwnedSocket:
    if _is_listening(path):
        raise OSError(f"{path} is in use by another process")
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = OwnedSocket.create()
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(_BACKLOG)
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
    with OwnedSocket.create() as client:
        try:
            client.connect(path, _PROBE_SECONDS)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _be_discreet() -> None:
    """Leave the program's signals to its own threads, and carry a name: see ps -L."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
    comm = f"/proc/self/task/{_thread.get_native_id()}/comm"
    with suppress(OSError), open_kernel_file(comm, os.O_WRONLY) as file:
        os.write(file.fileno(), b"ramledger")


def _answer(client: OwnedSocket) -> None:
    if client.peer_user() not in (os.geteuid(), 0):
        return
    line = _read_line(client)
    if line:
        with GATE:  # sent before the interpreter may end
            client.send_all(_encoded_reply(line), _CLIENT_SECONDS)


def _read_line(client: OwnedSocket) -> bytes:
    """One line, or nothing if it is too long, too slow or unfinished."""
    line = b""
    deadline = time.monotonic() + _CLIENT_SECONDS
    while not line.endswith(b"\n"):
        part = client.receive(4096, _CLIENT_SECONDS)
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
    resident_pages = int(read_kernel_file("/proc/self/statm").split()[1])
    return {
        "pid": os.getpid(),
        "python": sys.version.split()[0],
        "rss_bytes": resident_pages * os.sysconf("SC_PAGE_SIZE"),
    }


register_handler("ping", _ping)
