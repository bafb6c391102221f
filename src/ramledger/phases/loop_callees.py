"""Phases of a program that marks none: the user's functions that its training loop calls.

Samples of the call stack often see the memory of a short call only while another one runs. So
these functions are wrapped, as `--phase` would: each call is measured at its start and end, and
shows whether a new iteration has begun. A function that is called very often is unwrapped again.
"""

import dis
import functools
import inspect
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ramledger.interpreter.attributes import is_class
from ramledger.interpreter.frames import frame_locals
from ramledger.interpreter.loaded_modules import namespace, set_attribute
from ramledger.interpreter.type_facts import ancestors, namespace_of
from ramledger.interpreter.user_code import is_user_file
from ramledger.phases.code_loops import Loop
from ramledger.phases.loop_finder import TrainingLoop, loop_values
from ramledger.phases.phase_log import INFERRED, PhaseLog, Rank

_MARK = "__ramledger_phase__"
_MAX_CALLEES = 24
_LOOK_SECONDS = 0.02  # between two readings of the loop variable, which take some 20 µs
_TRIED_CALLS = 500
_FAST_SECONDS = (
    0.0005  # mean duration below which a function is no phase: wrapping would slow it down
)
_LEFT_ALONE = (
    inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)

Callee = tuple[Any, str, types.FunctionType]  # owner, attribute, function


class InferredPhases:
    """Wraps the functions that a loop calls, once per loop.

    `on_pass` gets the number of a pass that begins, and the frame of the loop.
    """

    def __init__(self, log: PhaseLog, on_pass: Callable[[int, types.FrameType], None]) -> None:
        self._log = log
        self._on_pass = on_pass
        self._done: set[tuple[types.CodeType, Loop]] = set()
        self._loop: TrainingLoop | None = None
        self._looked_at = 0.0

    def wrap_callees(self, frame: types.FrameType, loop: TrainingLoop) -> None:
        """Wrap the functions that this frame's loop calls; never raises."""
        self._loop = loop
        key = (loop.code, loop.lines)
        if key not in self._done:
            self._done.add(key)
            with suppress(Exception):
                for owner, name, function in list(callees_of(frame, loop.lines))[:_MAX_CALLEES]:
                    _set(owner, name, _wrapped(owner, name, function, self))

    def enter(self, name: str, caller: types.FrameType) -> bool:
        """A wrapped function is called: a pass through a phase, if the training loop calls it.

        A new iteration may have begun since the last call.
        """
        loop = self._loop
        if loop is None or caller.f_code is not loop.code:
            return False
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS and loop.variable:
            self._looked_at = now
            value = loop_values(caller, {loop.variable}).get(loop.variable)
            number = loop.counter.see(id(caller), value, now, turned=False)
            if number is not None:
                self._on_pass(number, caller)
        if self._log.rank > Rank.LOOP_AROUND:  # the user names phases
            return False
        self._log.enter(name, None, INFERRED)
        return True

    def leave(self) -> None:
        """A wrapped function returns."""
        self._log.leave()


def callees_of(frame: types.FrameType, loop: Loop) -> Iterator[Callee]:
    """The user's functions and methods that the lines of the loop call by name."""
    names: Any = _Namespace(frame.f_globals)
    values = dict(frame_locals(frame)) if frame.f_code.co_flags & inspect.CO_OPTIMIZED else {}
    before: Any = None
    for instruction in dis.get_instructions(frame.f_code):
        line = instruction.positions.lineno if instruction.positions else None
        if line is not None and loop[0] <= line <= loop[1] and isinstance(instruction.argval, str):
            name = instruction.argval
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield from _function_in(names, name)
                before = frame.f_globals.get(name)
                continue
            if instruction.opname in ("LOAD_METHOD", "LOAD_ATTR") and before is not None:
                yield from _method_of(before, name)
            is_local = instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF"))
            before = values.get(name) if is_local else None
        elif not instruction.opname.startswith(("CACHE", "PRECALL", "EXTENDED_ARG")):
            before = None


class _Namespace:
    """A module's globals as an object with attributes, to be treated like a class."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__ = names


def _function_in(names: _Namespace, name: str) -> Iterator[Callee]:
    function: Any = names.__dict__.get(name)
    if _may_be_wrapped(function):
        yield names, name, function


def _method_of(value: Any, name: str) -> Iterator[Callee]:
    if issubclass(type(value), types.ModuleType):
        function: Any = namespace(value).get(name)
        if _may_be_wrapped(function):
            yield value, name, function
        return
    for kind in () if is_class(value) else ancestors(type(value)):
        if name in namespace_of(kind):
            function = namespace_of(kind)[name]
            if _may_be_wrapped(function):
                yield kind, name, function
            return


def _set(owner: Any, name: str, value: Any) -> None:
    if type(owner) is _Namespace:
        owner.__dict__[name] = value
    else:
        set_attribute(owner, name, value)


def _may_be_wrapped(function: Any) -> bool:
    return (
        type(function) is types.FunctionType
        and not function.__code__.co_flags & _LEFT_ALONE
        and not function.__name__.startswith(("__", "<"))
        and not hasattr(function, _MARK)
        and is_user_file(function.__code__.co_filename)
    )


def _wrapped(owner: Any, name: str, function: types.FunctionType, phases: InferredPhases) -> Any:
    calls, spent = 0, 0.0

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls, spent
        started = time.monotonic()
        is_phase = phases.enter(function.__name__, sys._getframe(1))
        try:
            return function(*args, **kwargs)
        finally:
            if is_phase:
                phases.leave()
            calls += 1
            spent += time.monotonic() - started
            if calls == _TRIED_CALLS and spent < _FAST_SECONDS * calls:
                _set(owner, name, function)

    setattr(wrapped, _MARK, True)
    return wrapped
