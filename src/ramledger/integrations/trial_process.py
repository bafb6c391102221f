"""A function in a process of its own, held to a limit by the one who waits for it.

What it holds goes back to the system when it ends, also after a leak. The limit counts the process
and all that it starts; whatever is still alive is ended with it.
"""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from types import FunctionType
from typing import Any

from ramledger.account.light import TreeSampler
from ramledger.errors import ConfigError, MeasureError
from ramledger.measure import proc

LOOK_SECONDS = 0.02  # between two looks at the memory
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LEAVE_SECONDS = 10.0  # after its last word

Answer = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a held process ended. `value` is what the function returned, `error` what it raised."""

    how: str  # finished, raised, over the limit, killed, died
    peak_bytes: int
    seconds: float
    value: Any = None
    error: BaseException | None = None
    detail: str = ""


class Remote:
    """Stands for an object of the parent: methods are called there, attributes read there."""

    def __init__(self, connection: Connection, methods: frozenset[str]) -> None:
        self.__dict__["_connection"] = connection
        self.__dict__["_methods"] = methods

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._methods:
            return lambda *given, **named: self._ask(name, given, named)
        return self._ask(name, (), {})

    def _ask(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self._connection.send(("ask", name, given, named))
        is_error, found = self._connection.recv()
        if is_error:
            raise found
        return found


def run_held(
    function: Callable[[Any], Any], subject: object, methods: frozenset[str], limit_bytes: int
) -> Ended:
    """`function(subject)` in a new process; `subject` stays here, and is asked from there."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, _portable_function(function), methods))
    begin = time.monotonic()
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        ours.close()
        theirs.close()
        raise ConfigError(
            f"{function!r} cannot be sent to another process: {error}",
            hint="define it at the top level of a module",
        ) from None
    theirs.close()
    watch = _Watch(process.pid or 0, limit_bytes)
    message: tuple[Any, ...] = ("over",)
    try:
        message = _converse(ours, subject, watch)
    finally:
        if message[0] != "over":
            process.join(_LEAVE_SECONDS)
        _end(process)
        ours.close()
        watch.sampler.close()
    return _ended(message, process.exitcode, watch, time.monotonic() - begin)


class _Watch:
    """The most that the process and its descendants held together."""

    def __init__(self, pid: int, limit_bytes: int) -> None:
        self.sampler, self.limit_bytes, self.peak_bytes = TreeSampler(pid), limit_bytes, 0

    def is_over(self) -> bool:
        with suppress(MeasureError):
            self.peak_bytes = max(self.peak_bytes, self.sampler.sample().used_bytes)
        return self.peak_bytes > self.limit_bytes


def _converse(connection: Connection, subject: object, watch: _Watch) -> tuple[Any, ...]:
    """Answer what the child asks until it says how it ended, is gone, or holds too much."""
    while True:
        if watch.is_over():
            return ("over",)
        if not connection.poll(LOOK_SECONDS):
            continue
        try:
            message: tuple[Any, ...] = connection.recv()
        except (EOFError, ConnectionResetError):
            return ("gone",)
        if message[0] != "ask":
            return message
        with suppress(BrokenPipeError):
            connection.send(_answer(subject, *message[1:]))


def _answer(
    subject: object, name: str, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[bool, Any]:
    try:
        found = getattr(subject, name)
        if callable(found):
            found = found(*given, **named)
    except Exception as error:
        return True, _portable_error(error)
    return False, found


def _ended(message: tuple[Any, ...], exit_code: int | None, watch: _Watch, seconds: float) -> Ended:
    kind, *rest = message
    if kind == "value":
        value, own_peak_bytes = rest
        return Ended("finished", max(watch.peak_bytes, own_peak_bytes), seconds, value)
    if kind == "error":
        error, own_peak_bytes = rest
        return Ended("raised", max(watch.peak_bytes, own_peak_bytes), seconds, error=error)
    if kind == "over":
        return Ended("over the limit", watch.peak_bytes, seconds)
    # nobody but the kernel's out-of-memory killer ends a process by SIGKILL unasked
    how = "killed" if exit_code == -signal.SIGKILL else "died"
    return Ended(how, watch.peak_bytes, seconds, detail=f"exit code {exit_code}")


def _end(process: Any) -> None:
    """The process and all that it started are gone afterwards."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.is_alive():
        process.kill()
    process.join(_LEAVE_SECONDS)


# ---- in the child ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Named:
    """A function by its place; a decorated one is unwrapped: it would start another process."""

    module: str
    qualname: str

    def found(self) -> Any:
        place: Any = sys.modules.get(self.module) or import_module(self.module)
        for part in self.qualname.split("."):
            place = getattr(place, part)
        return getattr(place, "held_function", place)


def _portable_function(function: Callable[[Any], Any]) -> Any:
    if not isinstance(function, FunctionType):
        return function
    named = _Named(function.__module__, function.__qualname__)
    try:
        is_there = named.found() is function
    except (AttributeError, ImportError):
        is_there = False
    if not is_there:
        raise ConfigError(
            f"{function.__qualname__} cannot be found from another process",
            hint="define it at the top level of a module",
        )
    return named


def _child(connection: Connection, function: Any, methods: frozenset[str]) -> None:
    os.setsid()  # a group of its own, so that all of it can be ended
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        call = function.found() if isinstance(function, _Named) else function
        answer = ("value", call(Remote(connection, methods)), _own_peak_bytes())
        connection.send(answer)
    except BaseException as error:
        connection.send(("error", _portable_error(error), _own_peak_bytes()))


def _own_peak_bytes() -> int:
    return proc.status_bytes(proc.read_status(os.getpid()), "VmHWM")


def _portable_error(error: BaseException) -> BaseException:
    """The error itself if it survives the way, else its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
