"""Where a loop ends, as far as its header says so: `range(n)`, `while step < total`, a bar's total.

The header is evaluated from its bytecode with the values that its names have now. Only names,
attributes in an instance's own dictionary, whole numbers and a few builtins are: no code of the
program runs.
"""

import builtins
import itertools
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ramledger.interpreter.attributes import instance_dict, is_class
from ramledger.interpreter.frames import frame_locals
from ramledger.interpreter.loaded_modules import namespace
from ramledger.interpreter.type_facts import module_of, namespace_of
from ramledger.phases.code_loops import (
    Loop,
    for_instruction,
    increment_of,
    instructions_of,
    line_of,
    variable_of,
)

_OPTIMIZED = 0x1  # CO_OPTIMIZED: a function, not a module
_SIZED = (list, tuple, dict, set, frozenset, str, bytes)
_MOST_INSTRUCTIONS = 80
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "/": operator.truediv, "%": operator.mod,
}  # fmt: skip
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """How a loop counts: its variable begins at `start` and rises by `stride`; None if unknown.

    `end`: what the variable does not reach. `passes`: how many there will be. `bound`: what
    another number must reach for the loop to end, such as steps.
    """

    start: int | None = None
    stride: int | None = None
    end: int | None = None
    passes: int | None = None
    bound: int | None = None


UNKNOWN = LoopPlan()


class _Unknown:
    """A value that the header does not tell."""


_NOTHING = _Unknown()


def plan_of(frame: types.FrameType, loop: Loop) -> LoopPlan:
    """What the header of a loop says, for a frame that runs it; never raises."""
    try:
        instructions = instructions_of(frame.f_code)
        names = _Names(frame)
        at = for_instruction(instructions, loop)
        if at is not None:
            return _plan_of_iterable(_value_before(instructions, at, names))
        return _plan_of_while(frame.f_code, instructions, loop, names)
    except Exception:
        return UNKNOWN


def _plan_of_iterable(value: Any) -> LoopPlan:
    if type(value) is LoopPlan:
        return value
    if type(value) is range:
        return LoopPlan(value.start, value.step, value.stop, len(value))
    return LoopPlan(passes=len(value)) if type(value) in _SIZED else UNKNOWN


def _plan_of_while(
    code: types.CodeType, instructions: list[Any], loop: Loop, names: "_Names"
) -> LoopPlan:
    """`while step < total`: the bound, and the passes until then if `step` counts them."""
    stride = increment_of(code, loop) or None
    start = 0 if stride else None
    for at, instruction in enumerate(instructions):
        if instruction.opname != "COMPARE_OP" or line_of(instruction) != loop[0]:
            continue
        relation = instruction.argrepr.removeprefix("bool(").rstrip(")")
        sides = _stack_before(instructions, at, names)
        if relation not in ("<", "<=") or len(sides) < 2 or type(sides[-1]) is not int:
            continue
        end = sides[-1] + (relation == "<=")
        if not stride or not _loads(instructions, at, variable_of(code, loop)):
            return LoopPlan(start, stride, bound=sides[-1])
        return LoopPlan(start, stride, end, -(-end // stride))
    return LoopPlan(start, stride)


def _loads(instructions: list[Any], at: int, name: str) -> bool:
    """Whether the expression before an instruction begins with that variable."""
    first = _first_of_expression(instructions, at)
    found = instructions[first]
    return bool(found.opname.startswith("LOAD_") and found.argval == name)


class _Names:
    """What names mean in a frame; locals are read once."""

    def __init__(self, frame: types.FrameType) -> None:
        self._globals = frame.f_globals
        self.constants = frame.f_code.co_consts
        is_function = frame.f_code.co_flags & _OPTIMIZED
        self._locals = dict(frame_locals(frame)) if is_function else {}

    def get(self, opname: str, name: str) -> Any:
        if opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            return self._locals.get(name, _NOTHING)
        return self._globals.get(name, vars(builtins).get(name, _NOTHING))


def _value_before(instructions: list[Any], at: int, names: _Names) -> Any:
    """What is iterated over by the instruction at `at`."""
    while at and instructions[at].opname != "GET_ITER":
        at -= 1
    stack = _stack_before(instructions, at, names)
    return stack[-1] if stack else _NOTHING


def _stack_before(instructions: list[Any], at: int, names: _Names) -> list[Any]:
    """The values that the expression before an instruction leaves."""
    machine = _Machine(names)
    for instruction in instructions[_first_of_expression(instructions, at) : at]:
        machine.run(instruction)
    return machine.stack


def _first_of_expression(instructions: list[Any], at: int) -> int:
    first, least = at, max(0, at - _MOST_INSTRUCTIONS)
    while first > least and not _ends_statement(instructions[first - 1].opname):
        first -= 1
    return first


def _ends_statement(opname: str) -> bool:
    return opname.startswith(
        ("STORE_", "POP_", "JUMP_", "RESUME", "FOR_ITER", "RETURN", "DELETE_", "END_", "IMPORT_")
    )


class _Machine:
    """A stack of values; whatever it does not know becomes unknown."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self.stack: list[Any] = []
        self._keywords: tuple[str, ...] = ()

    def run(self, instruction: Any) -> None:
        name = instruction.opname
        if name in ("CACHE", "PRECALL", "EXTENDED_ARG", "NOP", "COPY_FREE_VARS", "RESUME"):
            return
        if name == "PUSH_NULL":
            self.stack.append(_NULL)
        elif name == "KW_NAMES":
            self._keywords = self._names.constants[instruction.arg]
        elif name.startswith("LOAD_"):
            self._load(instruction)
        elif name == "BINARY_OP":
            right, left = self.stack.pop(), self.stack.pop()
            self.stack.append(_computed(instruction.argrepr, left, right))
        elif name.startswith("CALL"):
            self._call(name, instruction.arg)
        else:
            self.stack.clear()

    def _load(self, instruction: Any) -> None:
        name = instruction.opname
        if name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            self.stack.append(instruction.argval)
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            self.stack.append(_attribute(self.stack.pop(), instruction.argval))
        else:
            if name == "LOAD_GLOBAL" and "NULL" in instruction.argrepr:
                self.stack.append(_NULL)
            self.stack.append(self._names.get(name, instruction.argval))

    def _call(self, name: str, count: int) -> None:
        keywords, self._keywords = self._keywords, ()
        if name == "CALL_KW":  # 3.13: the names are on the stack
            keywords = self.stack.pop()
        arguments = [self.stack.pop() for _ in range(count)][::-1]
        function = self.stack.pop()
        if self.stack and self.stack[-1] is _NULL:
            self.stack.pop()
        elif function is _NULL:  # 3.13: below the function
            function = self.stack.pop()
        plain = len(arguments) - len(keywords)
        named = dict(zip(keywords, arguments[plain:], strict=True))
        self.stack.append(_called(function, arguments[:plain], named))


_NULL = _Unknown()


def _attribute(value: Any, name: str) -> Any:
    if issubclass(type(value), types.ModuleType):
        return namespace(value).get(name, _NOTHING)  # tqdm.tqdm, itertools.count, config.TOTAL
    if is_class(value):
        found = namespace_of(value).get(name, _NOTHING)
    else:
        found = fields_of(value).get(name, _NOTHING)
        if found is _NOTHING:
            found = namespace_of(type(value)).get(name, _NOTHING)
    return found if type(found) in (int, float, range, *_SIZED) else _NOTHING


def fields_of(value: Any) -> Mapping[str, Any]:
    """The attributes in an instance's own dictionary."""
    if type(value) is types.SimpleNamespace:
        return vars(value)
    return instance_dict(value) or {}


def _computed(operation: str, left: Any, right: Any) -> Any:
    compute = _ARITHMETIC.get(operation)
    if compute is None or not all(type(side) in (int, float) for side in (left, right)):
        return _NOTHING
    if not right and operation in ("/", "//", "%"):
        return _NOTHING
    found = compute(left, right)
    return found if abs(found) < _MOST else _NOTHING


def _called(function: Any, arguments: list[Any], named: Mapping[str, Any]) -> Any:
    """The result of a builtin or of tqdm, as far as the plan of a loop needs it."""
    if function is range and all(type(one) is int for one in arguments) and arguments:
        return range(*arguments)
    if function is itertools.count and len(arguments) <= 1 and not named:
        start = arguments[0] if arguments else 0
        return LoopPlan(start, 1) if type(start) is int else UNKNOWN
    first: Any = arguments[0] if arguments else _NOTHING
    if function is len and type(first) in _SIZED:
        return len(first)
    if function is int and type(first) in (int, float):
        return int(first)
    if function is enumerate:
        start = arguments[1] if len(arguments) > 1 else named.get("start", 0)
        passes = _plan_of_iterable(first).passes
        if type(start) is int:
            return LoopPlan(start, 1, None if passes is None else start + passes, passes)
    return _bar_over(function, first, arguments, named)


def _bar_over(function: Any, first: Any, arguments: list[Any], named: Mapping[str, Any]) -> Any:
    """`tqdm(range(n))`, `trange(n)`, `tqdm(batches, total=n)`."""
    if not _is_bar(function):
        return _NOTHING
    if type(function) is types.FunctionType and function.__name__ in ("trange", "tnrange"):
        return _called(range, arguments, {})
    found = _plan_of_iterable(first)
    total = named.get("total")
    return LoopPlan(passes=total) if found.passes is None and type(total) is int else found


def _is_bar(value: Any) -> bool:
    """Whether it is tqdm's class or one of its functions."""
    if type(value) is types.FunctionType:
        module: Any = value.__module__
    else:
        module = module_of(value) if is_class(value) else ""
    return type(module) is str and module.partition(".")[0] == "tqdm"
