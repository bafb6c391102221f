"""Asks a live Python process a question, and starts an agent in it first if it has none.

Entering a process means: make it start our agent (`ramledger.agent.server`). The answer comes over
the agent's socket, so a second question is cheap.
"""

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, NoReturn

from ramledger.agent.server import socket_paths
from ramledger.attach.handshake import Handshake
from ramledger.attach.inject import start_python, stopped_error
from ramledger.attach.target import Target, survey
from ramledger.errors import MeasureError, NotPermittedError, ProcessGoneError
from ramledger.measure import proc

EntryMethod = Literal["auto", "agent", "remote_exec", "ptrace"]

STARTER = "ramledger.agent.start:serve_statements"

_LARGEST_REPLY_BYTES = 64 * 1024 * 1024
_REMOTE_EXEC_SECONDS = 1.0
_START_SECONDS = 0.5
_RENEWAL_SECONDS = 0.3
_NOT_REPEATED = {"pressure"}  # it runs callbacks of the program
_PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_RUN_HINT = "start it under `ramledger run`"


def ask_inside(
    pid: int,
    request: dict[str, Any],
    *,
    timeout_seconds: float = 20.0,
    method: EntryMethod = "auto",
    starter: str = STARTER,
) -> dict[str, Any]:
    """The reply of a process to one request; `starter` registers handlers in a process we enter.

    By its agent if it has one, else by `sys.remote_exec` (Python 3.14 on both sides), else by a
    thread started through ptrace. The process continues whatever happens to us.
    """
    deadline = time.monotonic() + timeout_seconds
    _require_running(pid)
    client = _connect(pid, socket_paths(pid), deadline)
    if client is None and method == "agent":
        raise MeasureError(f"process {pid} has no agent", pid=pid, hint=_RUN_HINT)
    if client is None:
        path = _enter(pid, method, starter, deadline)
        client = _connect(pid, [path], deadline)
    if client is None:
        raise _lost_error(pid)
    try:
        return _ask(pid, client, request, deadline)
    except ConnectionError:
        return _ask_again(pid, request, deadline)


def _ask_again(pid: int, request: dict[str, Any], deadline: float) -> dict[str, Any]:
    """If the program closed the agent's socket, the agent opens a new one a moment later."""
    client = None
    if request.get("verb") not in _NOT_REPEATED:
        time.sleep(min(_RENEWAL_SECONDS, _seconds_left(deadline)))
        client = _connect(pid, socket_paths(pid), deadline)
    if client is None:
        raise _lost_error(pid)
    try:
        return _ask(pid, client, request, deadline)
    except ConnectionError as error:
        raise _lost_error(pid) from error


def _require_running(pid: int) -> None:
    stat = proc.read_stat(pid)
    if stat.is_kernel_thread:
        raise MeasureError(f"process {pid} is a kernel thread and runs no Python", pid=pid)
    if not stat.has_memory:
        raise ProcessGoneError(f"process {pid} has ended, it is a zombie", pid=pid)
    if stat.state == "T":
        raise stopped_error(pid)


# ---- asking ------------------------------------------------------------------------------------


def _connect(pid: int, paths: list[str], deadline: float) -> socket.socket | None:
    """A connection to the agent of this process, directly or through the root of its container."""
    for path in paths:
        for seen_from_here in (path, f"/proc/{pid}/root{path}"):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                client.settimeout(_seconds_left(deadline))
                client.connect(seen_from_here)
                if _peer_pid(client) == pid:
                    return client
            except OSError:
                pass
            client.close()
    return None


def _peer_pid(client: socket.socket) -> int:
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[0])


def _ask(
    pid: int, client: socket.socket, request: dict[str, Any], deadline: float
) -> dict[str, Any]:
    """The reply over this connection, which is then closed; ConnectionError without a reply."""
    with client:
        try:
            client.sendall(json.dumps(request).encode() + b"\n")
            data = _read_all(pid, client, deadline)
        except TimeoutError:
            _give_up(pid, "its agent did not answer")
        except OSError as error:
            raise ConnectionError from error
    if not data:
        raise ConnectionError
    try:
        reply = json.loads(data)
    except ValueError as error:
        raise MeasureError(
            f"the agent of process {pid} sent a reply that is not JSON", pid=pid
        ) from error
    if not isinstance(reply, dict) or "error" in reply:
        reason = reply.get("error") if isinstance(reply, dict) else "not an object"
        raise MeasureError(f"the agent of process {pid} could not answer: {reason}", pid=pid)
    return reply


def _read_all(pid: int, client: socket.socket, deadline: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= _LARGEST_REPLY_BYTES:
        client.settimeout(_seconds_left(deadline))
        part = client.recv(1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise MeasureError(f"the agent of process {pid} sent more than 64 MiB", pid=pid)


def _seconds_left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def _lost_error(pid: int) -> MeasureError:
    try:
        if proc.read_stat(pid).is_zombie:
            return ProcessGoneError(f"process {pid} ended while it was asked", pid=pid)
    except MeasureError as error:
        return error
    return MeasureError(f"the agent of process {pid} gave no answer", pid=pid, hint="try again")


def _give_up(pid: int, what: str) -> NoReturn:
    raise MeasureError(
        f"process {pid}: {what} in time; it may hold the interpreter lock (GIL) in a long call",
        pid=pid,
        hint="try again; the process is not affected",
    )


# ---- entering ----------------------------------------------------------------------------------


def _enter(pid: int, method: EntryMethod, starter: str, deadline: float) -> str:
    """Make the process start its agent; the path of its socket, as the process sees it."""
    _require_traceable(pid)
    _let_it_start(pid)
    try:
        target = survey(pid)
        handshake = Handshake(pid, starter)
        try:
            if method == "remote_exec" or (method == "auto" and _can_remote_exec(target)):
                path = _by_remote_exec(target, handshake, method, deadline)
                if path:
                    return path
            start_python(target, handshake.source, deadline)
            return handshake.wait(deadline) or _give_up(pid, "our thread did not run")
        finally:
            handshake.close()
    except MeasureError:
        _require_memory(pid)
        raise
    except OSError as error:
        _require_memory(pid)
        if isinstance(error, PermissionError):
            raise permission_error(pid) from error
        raise MeasureError(f"process {pid} cannot be entered: {error}", pid=pid) from error


def _require_memory(pid: int) -> None:
    """If the process is ending, that is why something failed: raise that instead."""
    if not proc.read_stat(pid).has_memory:
        raise ProcessGoneError(f"process {pid} is ending", pid=pid)


def _can_remote_exec(target: Target) -> bool:
    return sys.version_info >= (3, 14) and target.python == sys.version_info[:2]


def _by_remote_exec(
    target: Target, handshake: Handshake, method: EntryMethod, deadline: float
) -> str:
    """Let the interpreter run our script; "" if another method must be tried."""
    pid, is_only_method = target.pid, method == "remote_exec"
    if not _can_remote_exec(target):
        its = ".".join(map(str, target.python))
        raise MeasureError(
            "sys.remote_exec needs the same Python on both sides, 3.14 or newer: "
            f"this is {sys.version_info[0]}.{sys.version_info[1]}, process {pid} has {its}",
            pid=pid,
        )
    until = deadline if is_only_method else min(deadline, time.monotonic() + _REMOTE_EXEC_SECONDS)
    try:
        _remote_exec(pid, handshake.write_script())
    except (OSError, RuntimeError) as error:
        handshake.script_is_done()
        if is_only_method:
            raise MeasureError(f"sys.remote_exec into {pid} failed: {error}", pid=pid) from error
        return ""
    path = handshake.wait(until)
    if path:
        handshake.script_is_done()
    elif is_only_method:
        _give_up(pid, "its main thread did not run our script")
    return path


def _remote_exec(pid: int, script: str) -> None:
    function: Callable[[int, str], None] = vars(sys)["remote_exec"]
    function(pid, script)


def _let_it_start(pid: int) -> None:
    """Wait a moment: a starting interpreter holds locks and has not loaded all its modules."""
    started = proc.read_stat(pid).start_ticks / os.sysconf("SC_CLK_TCK")
    age_seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - started
    if age_seconds < _START_SECONDS:
        time.sleep(_START_SECONDS - max(0.0, age_seconds))


def _require_traceable(pid: int) -> None:
    tracer = int(proc.read_status(pid).get("TracerPid", "0"))
    if tracer:
        raise MeasureError(
            f"process {pid} is already traced by process {tracer} ({_name_of(tracer)})",
            pid=pid,
            hint="detach the debugger or strace first",
        )


def _name_of(pid: int) -> str:
    try:
        return proc.read_stat(pid).comm
    except MeasureError:
        return "gone"


def permission_error(pid: int, ptrace_scope_file: str = _PTRACE_SCOPE) -> NotPermittedError:
    """Why the kernel does not let us trace this process, as far as it is known."""
    user = int(proc.read_status(pid)["Uid"].split()[1])
    if os.geteuid() not in (0, user):
        reason, hint = f"it belongs to user {user}", "run as that user, or with sudo"
    else:
        reason, hint = _SCOPES.get(_ptrace_scope(ptrace_scope_file), _UNKNOWN_SCOPE)
    return NotPermittedError(
        f"not permitted to enter process {pid}: {reason}", pid=pid, hint=f"{hint}, or {_RUN_HINT}"
    )


def _ptrace_scope(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


_SCOPES = {
    "1": (
        "kernel.yama.ptrace_scope is 1, only a parent may trace",
        "run as root, or: sysctl kernel.yama.ptrace_scope=0",
    ),
    "2": ("kernel.yama.ptrace_scope is 2, only root may trace", "run as root"),
    "3": (
        "kernel.yama.ptrace_scope is 3, nobody may trace",
        "reboot with kernel.yama.ptrace_scope below 3",
    ),
}
_UNKNOWN_SCOPE = (
    "the kernel refuses (no CAP_SYS_PTRACE, or a process that may not be dumped)",
    "run as root, in a container with --cap-add SYS_PTRACE",
)
