"""Finds the training loop of a program that marks nothing, in samples of the main thread's stack.

Loops are found in the bytecode; a loop turns when a frame's line runs backwards inside it. The
outermost loop of the user's code that turns is the training loop, what it calls are its phases.
Memory that appears between two samples is booked to the user's function that runs then.
"""

import os
import sys
import threading
import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ramledger.interpreter.frames import OURS, frame_locals
from ramledger.interpreter.user_code import is_user_file
from ramledger.phases.growth_by_function import FunctionGrowth

_MAX_DEPTH = 60
_OPTIMIZED = 0x1  # CO_OPTIMIZED: a function, not a module
_BELIEVED_TURNS = 1
_STANDS_STILL_SECONDS = 10.0  # after so long without a turn, an inner loop may be the training loop
_MAX_NAMES = 60

Loop = tuple[int, int]  # first and last line


@dataclass(slots=True)
class _Level:
    """One user frame of the stack, compared from sample to sample."""

    code: types.CodeType
    frame_id: int
    line: int
    turns: Counter[Loop] = field(default_factory=Counter)
    values: dict[Loop, object] = field(default_factory=dict)
    since: dict[Loop, float] = field(default_factory=dict)  # when the loop was first seen


@dataclass(slots=True)
class FunctionSums:
    """Growth and time by function since the last `take_sums`."""

    samples: int = 0
    growth_bytes: dict[str, Counter[str]] = field(default_factory=dict)  # by level, then function
    seconds: dict[str, float] = field(default_factory=dict)


class LoopFinder:
    """Takes samples; gives turns of the loop, the current call and growth by function."""

    def __init__(self) -> None:
        self._samples = 0
        self._seconds: dict[str, float] = {}
        self._growth: dict[str, FunctionGrowth] = {}
        self._levels: list[_Level] = []
        self._loop: tuple[types.CodeType, Loop] | None = None
        self._clock = 0.0
        self.number: int | None = None  # the loop variable, if it is an int

    def sample(
        self, frames: list[types.FrameType], levels: Mapping[str, int], seconds: float
    ) -> bool:
        """`frames`: the main thread's user frames, outermost first. True when the loop turned.

        `levels`: bytes now, by the name of what they measure.
        """
        self._clock += seconds
        self._book(frames, levels, seconds)
        turned = self._follow(frames)
        known, self._loop = self._loop, self._training_loop() or self._loop
        return self._loop in turned and known == self._loop

    def frame_of_loop(self, frames: list[types.FrameType]) -> tuple[types.FrameType, Loop] | None:
        """The frame in which the training loop turns, and the loop's lines."""
        if self._loop is None:
            return None
        code, loop = self._loop
        return next(((frame, loop) for frame in frames if frame.f_code is code), None)

    def is_around(self, frames: list[types.FrameType], outer: int) -> bool:
        """Whether the training loop turns in one of the `outer` outermost frames."""
        code = self._loop[0] if self._loop else None
        return any(frame.f_code is code for frame in frames[:outer])

    def _training_loop(self) -> tuple[types.CodeType, Loop] | None:
        """The outermost loop that turns; an inner one only if those around it do not turn."""
        for level in self._levels:
            for loop in loops_of(level.code):  # widest first
                if not loop[0] <= level.line <= loop[1]:
                    continue
                if level.turns[loop] >= _BELIEVED_TURNS:
                    value = level.values.get(loop)
                    is_number = bool(variable_of(level.code, loop)) and type(value) is int
                    self.number = value if is_number and isinstance(value, int) else None
                    return level.code, loop
                since = level.since.setdefault(loop, self._clock)
                if self._clock - since < _STANDS_STILL_SECONDS:
                    return None  # it may still turn: a loop inside it is not the training loop
        return None

    def current(self, frames: list[types.FrameType]) -> tuple[str, str]:
        """(the loop's function, what it is calling now); empty while no loop is known."""
        code = self._loop[0] if self._loop else None
        for depth, frame in enumerate(frames):
            if frame.f_code is code:
                inner = frames[depth + 1].f_code.co_name if depth + 1 < len(frames) else ""
                return name_of(frame.f_code), inner or f"line {frame.f_lineno}"
        return "", ""

    def take_sums(self) -> FunctionSums:
        """Growth and time since the last call."""
        growth = {name: booked.take() for name, booked in self._growth.items()}
        taken = FunctionSums(self._samples, growth, self._seconds)
        self._samples, self._seconds = 0, {}
        return taken

    def _book(
        self, frames: list[types.FrameType], levels: Mapping[str, int], seconds: float
    ) -> None:
        self._samples += 1
        name = name_of(_innermost(frames)) if frames else "?"
        if len(self._seconds) >= _MAX_NAMES and name not in self._seconds:
            name = "other"
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds
        for kind, level in levels.items():
            self._growth.setdefault(kind, FunctionGrowth()).add(name, level)

    def _follow(self, frames: list[types.FrameType]) -> set[tuple[types.CodeType, Loop]]:
        """Compare with the last sample; returns the loops that turned since."""
        levels: list[_Level] = []
        turned: set[tuple[types.CodeType, Loop]] = set()
        same = True
        for depth, frame in enumerate(frames[:_MAX_DEPTH]):
            known = self._levels[depth] if same and depth < len(self._levels) else None
            if known is None or known.frame_id != id(frame) or known.code is not frame.f_code:
                same = False
                levels.append(_Level(frame.f_code, id(frame), frame.f_lineno))
                continue
            for loop in self._turned_in(frame, known):
                known.turns[loop] += 1
                turned.add((known.code, loop))
            known.line = frame.f_lineno
            levels.append(known)
        self._levels = levels
        return turned

    def _turned_in(self, frame: types.FrameType, known: _Level) -> list[Loop]:
        """Loops of a frame that turned: the loop variable changed, or the line went back."""
        turned = []
        by_line = turned_loop(frame.f_code, known.line, frame.f_lineno)
        around = [loop for loop in loops_of(frame.f_code) if loop[0] <= frame.f_lineno <= loop[1]]
        names = {loop: variable_of(frame.f_code, loop) for loop in around}
        values = loop_values(frame, {name for name in names.values() if name})
        for loop in around:
            value = values.get(names[loop])
            before = known.values.get(loop)
            if value is None:
                if loop == by_line:
                    turned.append(loop)
            elif before is not None and value != before:
                turned.append(loop)
            known.values[loop] = value
        return turned


def loop_values(frame: types.FrameType, names: set[str]) -> dict[str | None, object]:
    """Current values of loop variables: ints as they are, other objects by id."""
    if not names:
        return {}
    pairs = frame_locals(frame)
    if not frame.f_code.co_flags & _OPTIMIZED:
        pairs = [(name, frame.f_globals.get(name)) for name in names]
    return {
        name: value if type(value) is int else f"at {id(value)}"
        for name, value in pairs
        if name in names and value is not None
    }


@lru_cache(maxsize=2048)
def variable_of(code: types.CodeType, loop: Loop) -> str:
    """The variable that changes with every turn: a `for` loop's own, else a counter."""
    import dis

    instructions = list(dis.get_instructions(code))
    for at, instruction in enumerate(instructions[:-1]):
        line = instruction.positions.lineno if instruction.positions else None
        if instruction.opname == "FOR_ITER" and line == loop[0]:
            targets = instructions[at + 1 : at + 3]
            if targets[0].opname.startswith("UNPACK_SEQUENCE"):
                targets = targets[1:]  # for i, batch in enumerate(...)
            return _stored(targets[0]) if targets else ""
    return _counter_of(code, loop, instructions)


def _counter_of(code: types.CodeType, loop: Loop, instructions: list[Any]) -> str:
    """The first variable that a `while` loop increments by a constant, outside inner loops."""
    inner = [other for other in loops_of(code) if other != loop and _lies_in(other, loop)]
    for at in range(2, len(instructions) - 1):
        operation, target = instructions[at], instructions[at + 1]
        line = operation.positions.lineno if operation.positions else None
        if line is None or not loop[0] <= line <= loop[1]:
            continue
        if any(other[0] <= line <= other[1] for other in inner):
            continue
        if operation.opname != "BINARY_OP" or operation.argrepr not in ("+=", "+"):
            continue
        operands = [instructions[at - 2], instructions[at - 1]]
        name = _stored(target)
        if name and operands[0].argval == name and type(operands[1].argval) is int:
            return name
    return ""


def _stored(instruction: Any) -> str:
    """The variable that an instruction stores to; '' for other instructions."""
    stores = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
    if not instruction.opname.startswith(stores):
        return ""
    name = instruction.argval
    return str(name[0] if isinstance(name, tuple) else name)


def _lies_in(inner: Loop, outer: Loop) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def turned_loop(code: types.CodeType, before: int, now: int) -> Loop | None:
    """The innermost loop around both lines, when the line ran backwards in it."""
    if now >= before:
        return None
    around = [loop for loop in loops_of(code) if loop[0] <= now and before <= loop[1]]
    return around[-1] if around else None


@lru_cache(maxsize=512)
def loops_of(code: types.CodeType) -> tuple[Loop, ...]:
    """Line ranges of the loops in a function, widest first; loops on one line are left out."""
    import dis  # imported here: few processes need it, and it takes memory

    lines: dict[int, int] = {}
    line = code.co_firstlineno
    jumps = []
    for instruction in dis.get_instructions(code):
        position = instruction.positions.lineno if instruction.positions else None
        line = position or line
        lines[instruction.offset] = line
        if "BACKWARD" in instruction.opname and isinstance(instruction.argval, int):
            jumps.append((instruction.argval, instruction.offset))
    found = set()
    for target, source in jumps:
        body = [at for offset, at in lines.items() if target <= offset <= source]
        if body and min(body) < max(body):
            found.add((min(body), max(body)))
    return tuple(sorted(found, key=lambda loop: (loop[0] - loop[1], loop)))


def _innermost(frames: list[types.FrameType]) -> types.CodeType:
    """The innermost function with a name of its own: not a lambda or a comprehension."""
    for frame in reversed(frames):
        if not frame.f_code.co_name.startswith("<") or frame.f_code.co_name == "<module>":
            return frame.f_code
    return frames[-1].f_code


def user_frames(thread_id: int) -> tuple[list[types.FrameType], int]:
    """The frames of a thread that run the user's own files, outermost first.

    The number says how many of the outermost were called by no library.
    """
    frame = sys._current_frames().get(thread_id)
    found = []
    outer = 0
    is_called = False  # by a library, what was found last
    while frame is not None:
        name = frame.f_code.co_filename
        if is_user_file(name):
            outer = 1 if is_called else outer + 1
            is_called = False
            found.append(frame)
        elif not name.startswith(("<frozen", OURS)):  # our own wrappers do not count as a library
            is_called = True
        frame = frame.f_back
    found.reverse()
    return found, outer


def name_of(code: types.CodeType) -> str:
    """`train.py:evaluate`."""
    return f"{os.path.basename(code.co_filename)}:{code.co_name}"


def main_thread_id() -> int:
    """The id of the thread that runs the program's main code."""
    return threading.main_thread().ident or 0
