"""Finds the training loop of a program that marks nothing, in samples of the main thread's stack.

A loop turns when its variable changes or a frame's line runs backwards inside it. Of the loops
around what runs, the outermost that turns is chosen; of loops one after the other the one that
trains, and of equals the one that lasts longest. What it calls are its phases.
"""

import types
from collections.abc import Mapping
from dataclasses import dataclass, field

from ramledger.interpreter.frames import frame_locals
from ramledger.phases.call_stack import CallStack, Sign, name_of
from ramledger.phases.code_loops import Loop, loops_of, turned_loop, variable_of
from ramledger.phases.function_sums import FunctionBook, FunctionSums
from ramledger.phases.loop_plan import LoopPlan, plan_of
from ramledger.phases.pass_counter import PassCounter

_MAX_DEPTH = 60
_MAX_LOOPS = 400
_MAX_CODES = 1000
_OPTIMIZED = 0x1  # CO_OPTIMIZED: a function, not a module
_STANDS_STILL_SECONDS = 10.0  # after so long without a turn, an inner loop may be the training loop
_FEW_PASSES = 5  # a loop of fewer, all of it around one other loop, only repeats the training
_ALL_OF_IT = 0.8
_PLAN_REST_SECONDS = 1.0

Key = tuple[int, Loop]  # id of the function's code, which is slow to hash, and the lines


@dataclass(slots=True)
class _Facts:
    """What is known of one loop, over all frames that ran it."""

    code: types.CodeType
    variable: str
    first_seen: float
    turns: int = 0
    seconds: float = 0.0
    sign: Sign = Sign.NONE
    plan: LoopPlan | None = None


@dataclass(slots=True)
class _Level:
    """One user frame of the stack, compared from sample to sample."""

    code: types.CodeType
    frame_id: int
    line: int
    values: dict[Loop, object] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class TrainingLoop:
    """The loop that was chosen, and its passes."""

    code: types.CodeType
    lines: Loop
    variable: str
    counter: PassCounter

    @property
    def key(self) -> Key:
        return id(self.code), self.lines

    @property
    def name(self) -> str:
        return f"{name_of(self.code)}, line {self.lines[0]}"


class LoopFinder:
    """Takes samples; knows the training loop, the current call and growth by function."""

    def __init__(self) -> None:
        self._book = FunctionBook()
        self._levels: list[_Level] = []
        self._facts: dict[Key, _Facts] = {}
        self._codes: dict[int, tuple[types.CodeType, tuple[Loop, ...]]] = {}
        self._around: list[Key] = []  # loops around what runs, outermost first
        self._clock = 0.0
        self._plan_read_at = float("-inf")
        self._loop_frame_id = 0
        self.loop: TrainingLoop | None = None

    def sample(self, stack: CallStack, levels: Mapping[str, int], seconds: float) -> bool:
        """Take one reading of the stack in; True when the training loop turned.

        `levels`: bytes now, by the name of what they measure.
        """
        self._clock += seconds
        self._book.add(stack.frames, levels, seconds)
        turned = self._follow(stack, seconds)
        self._choose(stack)
        loop = self.loop
        if loop is None:
            return False
        self._read_plan_again(stack)
        return loop.key in turned

    def take_sums(self) -> FunctionSums:
        """Growth and time by function since the last call."""
        return self._book.take()

    # ---- what the training loop does now ------------------------------------------------------

    @property
    def is_in_loop(self) -> bool:
        """Whether the training loop is on the stack."""
        loop = self.loop
        return loop is not None and loop.key in self._around

    @property
    def trains(self) -> bool:
        """Whether training was seen in the loop."""
        facts = self._facts_of_loop()
        return facts is not None and facts.sign > Sign.NONE

    @property
    def seconds(self) -> float:
        """How long the loop has been running."""
        facts = self._facts_of_loop()
        return 0.0 if facts is None else facts.seconds

    def value_in(self, frame: types.FrameType) -> object:
        """The loop variable's value with the last sample, if the loop turns in that frame."""
        loop = self.loop
        level = next((one for one in self._levels if one.frame_id == id(frame)), None)
        return None if level is None or loop is None else level.values.get(loop.lines)

    def frame_of_loop(self, stack: CallStack) -> types.FrameType | None:
        """The frame in which the training loop turns."""
        code = self.loop.code if self.loop else None
        return next((frame for frame in stack.frames if frame.f_code is code), None)

    def is_around(self, stack: CallStack) -> bool:
        """Whether the training loop turns in a frame that no library called."""
        code = self.loop.code if self.loop else None
        return any(frame.f_code is code for frame in stack.frames[: stack.outer])

    def current(self, stack: CallStack) -> tuple[str, str]:
        """(the loop's function, what it is calling now); empty while no loop is known."""
        code = self.loop.code if self.loop else None
        frames = stack.frames
        for depth, frame in enumerate(frames):
            if frame.f_code is code:
                inner = frames[depth + 1].f_code.co_name if depth + 1 < len(frames) else ""
                return name_of(frame.f_code), inner or f"line {frame.f_lineno}"
        return "", ""

    # ---- the choice ---------------------------------------------------------------------------

    def _choose(self, stack: CallStack) -> None:
        key = self._outermost(stack)
        if key is None or (self.loop and key == self.loop.key):
            return
        if self.loop is None or self._is_better(key):
            facts, counter = self._facts[key], PassCounter(self._plan(key, stack))
            self.loop = TrainingLoop(facts.code, key[1], facts.variable, counter)
            self._loop_frame_id = 0

    def _outermost(self, stack: CallStack) -> Key | None:
        """The outermost loop around what runs that turns; None while one around it may turn."""
        for at, key in enumerate(self._around):
            facts = self._facts[key]
            if facts.turns:
                return self._repeated_by(facts, self._around[at + 1 :]) or key
            if self._clock - facts.first_seen < _STANDS_STILL_SECONDS:
                return None
            if (self._plan(key, stack).passes or 0) >= _FEW_PASSES:
                return None  # it will turn
        return None

    def _repeated_by(self, outer: _Facts, inner: list[Key]) -> Key | None:
        """The loop that takes all the time of one that makes a few passes, such as one a seed."""
        passes = outer.plan.passes if outer.plan is not None else None
        if passes is None or passes >= _FEW_PASSES:
            return None
        for key in inner:
            facts = self._facts[key]
            is_slow = facts.turns >= _FEW_PASSES and facts.seconds / facts.turns >= 0.1
            if is_slow and facts.seconds >= _ALL_OF_IT * outer.seconds:
                return key
        return None

    def _is_better(self, key: Key) -> bool:
        """Than the loop that was chosen before."""
        assert self.loop is not None
        mine, other = self._facts[key], self._facts.get(self.loop.key)
        if other is None or mine.sign != other.sign:
            return other is None or mine.sign > other.sign
        return self.is_in_loop or mine.seconds > other.seconds

    def _plan(self, key: Key, stack: CallStack) -> LoopPlan:
        facts = self._facts[key]
        if facts.plan is None:
            frame = next(frame for frame in stack.frames if frame.f_code is facts.code)
            facts.plan = plan_of(frame, key[1])
        return facts.plan

    def _read_plan_again(self, stack: CallStack) -> None:
        """Where another call of the function runs the loop, it may have another end."""
        frame, loop = self.frame_of_loop(stack), self.loop
        if frame is None or loop is None or id(frame) == self._loop_frame_id:
            return
        if self._loop_frame_id and self._clock - self._plan_read_at >= _PLAN_REST_SECONDS:
            loop.counter.plan = plan_of(frame, loop.lines)
            self._plan_read_at = self._clock
        self._loop_frame_id = id(frame)

    def _facts_of_loop(self) -> _Facts | None:
        return self._facts.get(self.loop.key) if self.loop else None

    # ---- from sample to sample ----------------------------------------------------------------

    def _follow(self, stack: CallStack, seconds: float) -> set[Key]:
        """Compare with the last sample; returns the loops that turned since."""
        levels: list[_Level] = []
        turned: set[Key] = set()
        around: list[Key] = []
        same = True
        if len(self._facts) > _MAX_LOOPS:
            longest = sorted(self._facts.items(), key=lambda item: -item[1].seconds)
            self._facts = dict(longest[: _MAX_LOOPS // 2])
        for depth, frame in enumerate(stack.frames[:_MAX_DEPTH]):
            code, line = frame.f_code, frame.f_lineno or 0
            known = self._levels[depth] if same and depth < len(self._levels) else None
            here = [loop for loop in self._loops_of(code) if loop[0] <= line <= loop[1]]
            for loop in here:
                self._note(code, loop, seconds, stack.inside[depth])
            if known is None or known.frame_id != id(frame) or known.code is not code:
                same = False
                known = _Level(code, id(frame), line)
            elif here:
                names = {loop: self._facts[id(code), loop].variable for loop in here}
                turned.update((id(code), loop) for loop in _turned_in(frame, known, names))
            known.line = line
            levels.append(known)
            around += [(id(code), loop) for loop in here]
        for key in turned:
            self._facts[key].turns += 1
            self._plan(key, stack)
        self._levels, self._around = levels, around
        return turned

    def _loops_of(self, code: types.CodeType) -> tuple[Loop, ...]:
        known = self._codes.get(id(code))
        if known is None:
            if len(self._codes) >= _MAX_CODES:
                self._codes.clear()
            known = self._codes[id(code)] = (code, loops_of(code))
        return known[1]

    def _note(self, code: types.CodeType, loop: Loop, seconds: float, sign: Sign) -> None:
        facts = self._facts.get((id(code), loop))
        if facts is None:
            facts = _Facts(code, variable_of(code, loop), self._clock)
            self._facts[id(code), loop] = facts
        facts.seconds += seconds
        facts.sign = max(facts.sign, sign)


def _turned_in(frame: types.FrameType, known: _Level, variables: Mapping[Loop, str]) -> list[Loop]:
    """Loops of a frame that turned: the loop variable changed, or the line went back."""
    turned = []
    by_line = turned_loop(frame.f_code, known.line, frame.f_lineno)
    values = loop_values(frame, {name for name in variables.values() if name})
    for loop, name in variables.items():
        value = values.get(name)
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
