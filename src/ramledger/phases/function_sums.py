"""Growth and time by the user's function that runs, from samples of the call stack."""

import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ramledger.interpreter.source_text import line_of_code
from ramledger.phases.call_stack import name_of
from ramledger.phases.growth_by_function import FunctionGrowth

_MAX_NAMES = 60
_MOST_LINES = 6
_OWN = "growth_bytes"  # of this process, not of its children


@dataclass(slots=True)
class FunctionSums:
    """Growth and time by function since the last `take`."""

    samples: int = 0
    growth_bytes: Mapping[str, Counter[str]] = field(
        default_factory=dict
    )  # by level, then function
    line_growth_bytes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)


class FunctionBook:
    """Memory that appears between two samples is booked to the function that runs then."""

    def __init__(self) -> None:
        self._samples = 0
        self._seconds: dict[str, float] = {}
        self._growth: dict[str, FunctionGrowth] = {}
        self._lines: FunctionGrowth = FunctionGrowth()

    def add(self, frames: list[types.FrameType], levels: Mapping[str, int], seconds: float) -> None:
        """`levels`: bytes now, by the name of what they measure."""
        self._samples += 1
        innermost = _innermost(frames) if frames else None
        name = name_of(innermost.f_code) if innermost is not None else "?"
        if len(self._seconds) >= _MAX_NAMES and name not in self._seconds:
            name = "other"
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds
        for kind, level in levels.items():
            self._growth.setdefault(kind, FunctionGrowth()).add(name, level)
        if _OWN in levels:
            self._lines.add(_line_of(innermost), levels[_OWN])

    def take(self) -> FunctionSums:
        """Growth and time since the last call."""
        growth = {name: booked.take() for name, booked in self._growth.items()}
        lines = self._lines.take()
        taken = FunctionSums(self._samples, growth, Counter(_with_text(lines)), self._seconds)
        self._samples, self._seconds = 0, {}
        return taken


def _innermost(frames: list[types.FrameType]) -> types.FrameType:
    """The innermost function with a name of its own: not a lambda or a comprehension."""
    for frame in reversed(frames):
        if not frame.f_code.co_name.startswith("<") or frame.f_code.co_name == "<module>":
            return frame
    return frames[-1]


def _line_of(frame: types.FrameType | None) -> str:
    """File, line and function, as `_with_text` takes them apart."""
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}:{frame.f_code.co_qualname}"


def _with_text(growth: Mapping[str, int]) -> dict[str, int]:
    """The lines that grew most, with their text."""
    found = {}
    for line in sorted(growth, key=lambda line: -growth[line])[:_MOST_LINES]:
        file, _, rest = line.rpartition(":")[0].rpartition(":")
        if growth[line] > 0 and rest.isdecimal():
            found[line_of_code(file, int(rest), line.rpartition(":")[2])] = growth[line]
    return found
