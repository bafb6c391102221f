"""Growth and time by the user's function that runs, from samples of the call stack."""

import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ramledger.phases.call_stack import name_of
from ramledger.phases.growth_by_function import FunctionGrowth

_MAX_NAMES = 60


@dataclass(slots=True)
class FunctionSums:
    """Growth and time by function since the last `take`."""

    samples: int = 0
    growth_bytes: Mapping[str, Counter[str]] = field(
        default_factory=dict
    )  # by level, then function
    seconds: dict[str, float] = field(default_factory=dict)


class FunctionBook:
    """Memory that appears between two samples is booked to the function that runs then."""

    def __init__(self) -> None:
        self._samples = 0
        self._seconds: dict[str, float] = {}
        self._growth: dict[str, FunctionGrowth] = {}

    def add(self, frames: list[types.FrameType], levels: Mapping[str, int], seconds: float) -> None:
        """`levels`: bytes now, by the name of what they measure."""
        self._samples += 1
        name = name_of(_innermost(frames)) if frames else "?"
        if len(self._seconds) >= _MAX_NAMES and name not in self._seconds:
            name = "other"
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds
        for kind, level in levels.items():
            self._growth.setdefault(kind, FunctionGrowth()).add(name, level)

    def take(self) -> FunctionSums:
        """Growth and time since the last call."""
        growth = {name: booked.take() for name, booked in self._growth.items()}
        taken = FunctionSums(self._samples, growth, self._seconds)
        self._samples, self._seconds = 0, {}
        return taken


def _innermost(frames: list[types.FrameType]) -> types.CodeType:
    """The innermost function with a name of its own: not a lambda or a comprehension."""
    for frame in reversed(frames):
        if not frame.f_code.co_name.startswith("<") or frame.f_code.co_name == "<module>":
            return frame.f_code
    return frames[-1].f_code
