"""Runs a command without changing it: exit code, signals and terminal are the command's own.

The child is in our process group and has our file descriptors. There is no pipe and no terminal
between us, so if we are killed, the child continues.
"""

import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # POSIX, Shell Command Language, 2.8.2
TICK_SECONDS = 0.25

_FORWARDED = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGWINCH, signal.SIGTSTP, signal.SIGALRM,
)  # fmt: skip
_WATCHED = frozenset({*_FORWARDED, signal.SIGCHLD, signal.SIGCONT})
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_JOB_CONTROL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


Callback = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: by itself, by a signal, or not started (`problem` says why)."""

    exit_code: int | None = None
    signal: int | None = None
    problem: str = ""
    callback_error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What happens while the child runs; an error in one ends the callbacks, not the child."""

    on_start: Callable[[int], None]
    on_tick: Callback | None = None
    before_stop: Callback | None = None  # Ctrl-Z: the terminal goes back to the shell


@contextmanager
def signals_held() -> Iterator[set[int]]:
    """Block the signals that `supervise` waits for; gives the previous mask.

    Threads inherit the mask: start them inside, or a signal is delivered to them.
    """
    before = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)}
    try:
        yield before
    finally:
        while signal.sigtimedwait(_WATCHED, 0) is not None:
            pass  # they were meant for the child, and it is gone
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def supervise(
    command: Sequence[str],
    environment: Mapping[str, str],
    callbacks: Callbacks,
    *,
    mask: set[int] | None = None,
    streams: Mapping[int, int] | None = None,
    tick_seconds: float = TICK_SECONDS,
) -> Outcome:
    """Run `command` to its end, and pass on signals to it.

    `mask`: signals blocked in the child, from an enclosing `signals_held`; `streams`: descriptors
    of ours that the child has as 0, 1 or 2. Raises nothing that the child does.
    """
    with signals_held() as before:
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else the exit status would be lost
        pid = _start(command, environment, before if mask is None else mask, streams or {})
        if isinstance(pid, Outcome):
            return pid
        return _Supervision(pid, callbacks, tick_seconds).wait()


def cannot_start(command: Sequence[str], environment: Mapping[str, str]) -> Outcome | None:
    """Why a command would not start, as far as this is known without starting it."""
    found = [path for path in _candidates(command[0], environment) if os.path.isfile(path)]
    if any(os.access(path, os.X_OK) for path in found):
        return None
    code = errno.EACCES if found or os.path.isdir(command[0]) else errno.ENOENT
    return _not_started(command[0], code)


def die_like(outcome: Outcome) -> int:
    """The exit code to return, or the same death by a signal: it does not return then."""
    if outcome.signal is None:
        return outcome.exit_code or 0
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    # the child has written its core already, if it wanted to
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError, ValueError):  # SIGKILL has no handler to reset
        signal.signal(outcome.signal, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {outcome.signal})
    os.kill(os.getpid(), outcome.signal)
    # the first process of a container survives its own signals: pid_namespaces(7)
    os._exit(128 + outcome.signal)


class _Supervision:
    """One child, from its start to its end."""

    def __init__(self, pid: int, callbacks: Callbacks, tick_seconds: float) -> None:
        self._pid = pid
        self._callbacks = callbacks
        self._tick_seconds = tick_seconds
        self._error: Exception | None = None
        self._is_stopped = False

    def wait(self) -> Outcome:
        self._call(lambda: self._callbacks.on_start(self._pid))
        next_tick = time.monotonic()
        while True:
            outcome = self._reap()
            if outcome is not None:
                return replace(outcome, callback_error=self._error)
            seconds = max(0.0, next_tick - time.monotonic())
            info = signal.sigtimedwait(_WATCHED, seconds)
            if info is not None:
                self._handle(info.si_signo, info.si_code, info.si_pid)
                continue
            # a thread that is not ours may have taken the signal that the child has ended
            next_tick = time.monotonic() + self._tick_seconds
            if self._callbacks.on_tick is not None:
                self._call(self._callbacks.on_tick)

    def _call(self, callback: Callback) -> None:
        if self._error is None:
            try:
                callback()
            except Exception as error:  # whatever happens to the observer, the child goes on
                self._error = error

    def _reap(self) -> Outcome | None:
        # the first process of a container inherits every orphan in it
        whom = -1 if os.getpid() == 1 else self._pid
        while True:
            pid, status = os.waitpid(whom, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                return None
            if pid != self._pid:
                continue
            if os.WIFEXITED(status):
                return Outcome(exit_code=os.WEXITSTATUS(status))
            if os.WIFSIGNALED(status):
                return Outcome(signal=os.WTERMSIG(status))
            self._is_stopped = os.WIFSTOPPED(status)
            if self._is_stopped and os.WSTOPSIG(status) in _JOB_CONTROL and _has_job_control():
                self._stop_as_well()

    def _stop_as_well(self) -> None:
        """The shell waits for us, so it has to see us stopped; its `fg` continues both."""
        if self._callbacks.before_stop is not None:
            self._call(self._callbacks.before_stop)
        os.kill(os.getpid(), signal.SIGSTOP)

    def _handle(self, number: int, code: int, sender: int) -> None:
        # a positive code is the kernel's own: the terminal tells the whole group, child included,
        # but of its end only the leader of the session: tty_signal_session_leader() of the kernel
        is_known = code > 0 and not (number == signal.SIGHUP and os.getsid(0) == os.getpid())
        if is_known or sender == self._pid:
            return
        if number in _FORWARDED or (number == signal.SIGCONT and self._is_stopped):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)  # not reaped yet: the pid is still its own


def _start(
    command: Sequence[str],
    environment: Mapping[str, str],
    mask: set[int],
    streams: Mapping[int, int],
) -> int | Outcome:
    """The pid, or why there is none. Searches for the program as execvp(3) does."""
    code = errno.ENOENT
    for path in _candidates(command[0], environment):
        try:
            return _spawn(path, [*command], environment, mask, streams)
        except OSError as error:
            if error.errno in _MISSING:
                continue
            code = error.errno or code
            if code != errno.EACCES:
                break
    return _not_started(command[0], code)


def _spawn(
    path: str,
    arguments: list[str],
    environment: Mapping[str, str],
    mask: set[int],
    streams: Mapping[int, int],
) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in streams.items()]
    for program, words in ((path, arguments), ("/bin/sh", ["/bin/sh", path, *arguments[1:]])):
        try:
            return os.posix_spawn(
                program, words, environment,
                file_actions=actions, setsigmask=mask, setsigdef=_IGNORED_BY_PYTHON,
            )  # fmt: skip
        except OSError as error:
            if error.errno != errno.ENOEXEC:  # a script without #! is the shell's
                raise
    raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC))


def _candidates(name: str, environment: Mapping[str, str]) -> list[str]:
    if "/" in name or not name:
        return [name] if name else []
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return [os.path.join(folder or ".", name) for folder in folders]


def _not_started(name: str, code: int) -> Outcome:
    is_missing = code in _MISSING
    if is_missing:
        problem = f"command not found: {name}"
    elif os.path.isdir(name):
        problem = f"cannot run {name}: it is a directory"
    else:
        problem = f"cannot run {name}: {os.strerror(code).lower()}"
    if os.path.isfile(name) and name.endswith(".py"):
        problem += f"; did you mean `python {name}`?"
    elif os.path.isfile(name) and is_missing:
        problem += f"; did you mean ./{name}?"
    return Outcome(NOT_FOUND if is_missing else NOT_EXECUTABLE, problem=problem)


def _has_job_control() -> bool:
    """Whether a shell may be able to continue us: we have a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
