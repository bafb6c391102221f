"""A function in a process of its own, held to a limit by the one who waits for it.

What it holds goes back to the system when it ends, also after a leak. The limit counts the process
and all that it starts; whatever is still alive is ended with it.
"""

import fcntl
import multiprocessing
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from types import FunctionType
from typing import Any

from ramledger.errors import ConfigError
from ramledger.integrations.trials import fork_server
from ramledger.integrations.trials.fork_server import Inherited
from ramledger.integrations.trials.warm_start import WARMTH
from ramledger.recorder.tree_limit import TreeLimit

NOT_BEGUN = "not begun"
_F_SETSIG = 10  # fcntl(2)
_LEAVE_SECONDS = 10.0  # after its last message

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
    libraries: Sequence[str] = ()  # that it loaded


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
    function: Callable[[Any], Any],
    subject: object,
    methods: frozenset[str],
    limit_bytes: int,
    *,
    warm: bool = True,
) -> Ended:
    """`function(subject)` in a new process; `subject` stays here, and is asked from there."""
    objective = _place_of(function)
    context = WARMTH.context(objective) if warm else multiprocessing.get_context("spawn")
    ended = _run_in(context, function, subject, methods, limit_bytes)
    if ended.how == NOT_BEGUN:  # whatever is wrong with the server, a fresh process is without it
        WARMTH.is_off = True
        fresh = multiprocessing.get_context("spawn")
        ended = _run_in(fresh, function, subject, methods, limit_bytes)
    WARMTH.learn(objective, ended.libraries)
    return ended


def _run_in(
    context: Any,
    function: Callable[[Any], Any],
    subject: object,
    methods: frozenset[str],
    limit_bytes: int,
) -> Ended:
    """One attempt; one that was to be forked may not come to calling the function."""
    is_warm = context.get_start_method() == "forkserver"
    ours, theirs = context.Pipe()
    given = (theirs, _portable_function(function), methods, _place_of(function)[0])
    name = Inherited("trial") if is_warm else "trial"
    process = context.Process(target=_child, args=given, name=name)
    begin = time.monotonic()
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        ours.close()
        raise ConfigError(
            f"{function!r} cannot be sent to another process: {error}",
            hint="define it at the top level of a module",
        ) from None
    except (EOFError, OSError):
        ours.close()
        if is_warm:
            return Ended(NOT_BEGUN, 0, 0.0)
        raise
    finally:
        theirs.close()
    tree = TreeLimit(process.pid or 0, limit_bytes)
    message: tuple[Any, ...] = ("over",)
    try:
        message = _converse(ours, subject, tree)
    finally:
        if message[0] != "over":
            process.join(_LEAVE_SECONDS)
        tree.end()
        process.join(_LEAVE_SECONDS)
        ours.close()
        tree.close()
    if is_warm and message == ("gone", "at once"):
        return Ended(NOT_BEGUN, 0, 0.0)
    return _ended(message, process.exitcode, tree.peak_bytes, time.monotonic() - begin)


def _converse(connection: Connection, subject: object, tree: TreeLimit) -> tuple[Any, ...]:
    """Answer the child's questions until it reports its end, is gone, or holds too much."""
    when = "at once"
    waiting = select.poll()  # Connection.poll would make one for every call
    waiting.register(connection.fileno(), select.POLLIN)
    while True:
        if tree.is_over():
            return ("over",)
        if not waiting.poll(tree.rest_seconds() * 1000 + 1):
            continue
        try:
            message: tuple[Any, ...] = connection.recv()
        except (EOFError, ConnectionResetError):
            return ("gone", when)
        if message[0] == "begin":
            when = "later"
            tree.library_bytes = message[1]
        elif message[0] != "ask":
            return message
        else:
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


def _ended(
    message: tuple[Any, ...], exit_code: int | None, peak_bytes: int, seconds: float
) -> Ended:
    kind, *rest = message
    if kind == "value":
        value, own_peak_bytes, libraries = rest
        peak_bytes = max(peak_bytes, own_peak_bytes)
        return Ended("finished", peak_bytes, seconds, value, libraries=libraries)
    if kind == "error":
        error, own_peak_bytes, libraries = rest
        peak_bytes = max(peak_bytes, own_peak_bytes)
        return Ended("raised", peak_bytes, seconds, error=error, libraries=libraries)
    if kind == "over":
        return Ended("over the limit", peak_bytes, seconds)
    # nobody but the kernel's out-of-memory killer ends a process by SIGKILL unasked
    how = "killed" if exit_code == -signal.SIGKILL else "died"
    return Ended(how, peak_bytes, seconds, detail=f"exit code {exit_code}")


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


def _place_of(function: Any) -> tuple[str, str]:
    """Module and name of a function, also of one within a partial."""
    inner = getattr(function, "func", function)
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return named.__module__, named.__qualname__


def _child(connection: Connection, function: Any, methods: frozenset[str], module: str) -> None:
    os.setsid()  # a group of its own, so that all of it can be ended
    _end_with_parent()
    own_package = module.partition(".")[0]
    try:
        connection.send(("begin", fork_server.library_bytes()))
        call = function.found() if isinstance(function, _Named) else function
        found = call(Remote(connection, methods))
        connection.send(
            ("value", found, fork_server.own_peak_bytes(), fork_server.libraries(own_package))
        )
    except BaseException as error:
        last = (
            _portable_error(error),
            fork_server.own_peak_bytes(),
            fork_server.libraries(own_package),
        )
        connection.send(("error", *last))
    finally:
        if fork_server.is_warm():
            fork_server.leave()


def _last_facts(own_package: str) -> tuple[int, list[str]]:
    return fork_server.own_peak_bytes(), fork_server.libraries(own_package)


def _end_with_parent() -> None:
    """The kernel ends this group when the parent is gone, which holds the other end of a pipe.

    Its own parent may be a server, and the one that it works for may be killed at any moment.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    pipe: int = parent.sentinel
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(pipe, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if not parent.is_alive():
        os.killpg(0, signal.SIGKILL)


def _portable_error(error: BaseException) -> BaseException:
    """The error itself if it survives the way, else its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
