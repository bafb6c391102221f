"""The loops of a function, read off its bytecode: their lines, and the variable of each."""

import types
from functools import lru_cache
from typing import Any

Loop = tuple[int, int]  # first and last line


@lru_cache(maxsize=512)
def loops_of(code: types.CodeType) -> tuple[Loop, ...]:
    """Line ranges of the loops in a function, widest first; loops on one line are left out."""
    lines: dict[int, int] = {}
    line = code.co_firstlineno
    jumps = []
    for instruction in instructions_of(code):
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


def turned_loop(code: types.CodeType, before: int, now: int) -> Loop | None:
    """The innermost loop around both lines, when the line ran backwards in it."""
    if now >= before:
        return None
    around = [loop for loop in loops_of(code) if loop[0] <= now and before <= loop[1]]
    return around[-1] if around else None


@lru_cache(maxsize=2048)
def variable_of(code: types.CodeType, loop: Loop) -> str:
    """The variable that changes with every turn: a `for` loop's own, else a counter."""
    instructions = instructions_of(code)
    at = for_instruction(instructions, loop)
    if at is None:
        return _counter_of(code, loop, instructions)[0]
    targets = instructions[at + 1 : at + 3]
    if targets and targets[0].opname.startswith("UNPACK_SEQUENCE"):
        targets = targets[1:]  # for i, batch in enumerate(...)
    return _stored(targets[0]) if targets else ""


@lru_cache(maxsize=512)
def increment_of(code: types.CodeType, loop: Loop) -> int:
    """By how much a `while` loop's counter rises with every turn; 0 for other loops."""
    instructions = instructions_of(code)
    if for_instruction(instructions, loop) is not None:
        return 0
    return _counter_of(code, loop, instructions)[1]


def for_instruction(instructions: list[Any], loop: Loop) -> int | None:
    """Where the instruction is that takes the next item of a `for` loop; None for a `while`."""
    for at, instruction in enumerate(instructions[:-1]):
        if instruction.opname == "FOR_ITER" and line_of(instruction) == loop[0]:
            return at
    return None


def instructions_of(code: types.CodeType) -> list[Any]:
    """The instructions of a function, without caches."""
    import dis  # imported here: few processes need it, and it takes memory

    return list(dis.get_instructions(code))


def line_of(instruction: Any) -> int | None:
    return instruction.positions.lineno if instruction.positions else None


def _counter_of(code: types.CodeType, loop: Loop, instructions: list[Any]) -> tuple[str, int]:
    """The first variable that a loop increments by a constant outside inner loops, and by what."""
    inner = [other for other in loops_of(code) if other != loop and _lies_in(other, loop)]
    for at in range(2, len(instructions) - 1):
        operation, target = instructions[at], instructions[at + 1]
        line = line_of(operation)
        if line is None or not loop[0] <= line <= loop[1]:
            continue
        if any(other[0] <= line <= other[1] for other in inner):
            continue
        if operation.opname != "BINARY_OP" or operation.argrepr not in ("+=", "+"):
            continue
        operands = [instructions[at - 2], instructions[at - 1]]
        name = _stored(target)
        if name and operands[0].argval == name and type(operands[1].argval) is int:
            return name, operands[1].argval
    return "", 0


def _stored(instruction: Any) -> str:
    """The variable that an instruction stores to; '' for other instructions."""
    stores = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
    if not instruction.opname.startswith(stores):
        return ""
    name = instruction.argval
    return str(name[0] if isinstance(name, tuple) else name)


def _lies_in(inner: Loop, outer: Loop) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
