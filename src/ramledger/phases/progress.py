"""How far a training is: environment steps, and where steps and iterations are planned to end."""

import re
import types
from dataclasses import dataclass, replace
from typing import Any

from ramledger.interpreter.frames import frame_locals
from ramledger.interpreter.loaded_modules import loaded
from ramledger.phases.loop_plan import fields_of

_OPTIMIZED = 0x1  # CO_OPTIMIZED: a function, not a module
_STEPS = re.compile(
    r"(global|total|env|num|n|current)?_?(time)?_?steps?(_idx|_count|_done|_so_far|_taken)?"
    r"|frame_(idx|count|number)"
)
_PLANNED = re.compile(r"(total|max|num|n)_?(training|train|env)?_?(timesteps|steps|frames)")
_HOLDERS = ("args", "self", "config", "cfg", "trainer", "agent", "opt", "hparams")
_MOST_STEPS = 1 << 50


@dataclass(frozen=True, slots=True)
class Progress:
    """None where nobody says."""

    steps: int | None = None
    planned_steps: int | None = None
    last_generation: int | None = None


NOTHING = Progress()


class ProgressSoFar:
    """What was heard last. Who counts says where the end is; others may know the steps."""

    def __init__(self) -> None:
        self.now = NOTHING
        self._model_steps = self._earlier_steps = 0

    def hear(self, progress: Progress) -> None:
        """From who counts the iterations."""
        if progress.steps is None:
            progress = replace(progress, steps=self.now.steps)
        self.now = progress

    def hear_steps(self, progress: Progress) -> None:
        """From somebody else."""
        self.now = replace(self.now, steps=progress.steps)

    def in_all(self, progress: Progress) -> Progress:
        """A model that is new, or learns anew, counts its steps from zero: they are added up."""
        steps, planned = progress.steps, progress.planned_steps
        if steps is None:
            return progress
        if steps < self._model_steps:
            self._earlier_steps += self._model_steps
        self._model_steps = steps
        earlier = self._earlier_steps
        return Progress(
            steps + earlier,
            None if planned is None else planned + earlier,
            None if earlier else progress.last_generation,
        )


class StepReader:
    """Finds the counter of steps among the numbers that a loop's frame can reach."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        self._name = ""

    def read(self, frame: types.FrameType, without: str = "") -> tuple[int | None, int | None]:
        """(steps so far, steps planned): a number named so that rises, one that does not."""
        numbers = _numbers_in(frame)
        numbers.pop(without, None)
        risen = [
            name
            for name, value in numbers.items()
            if _STEPS.fullmatch(_last(name)) and value > self._before.get(name, value)
        ]
        if risen and self._name not in risen:
            self._name = max(risen, key=lambda name: numbers[name])
        fixed = [
            value
            for name, value in numbers.items()
            if _PLANNED.fullmatch(_last(name)) and self._before.get(name) == value
        ]
        self._before = numbers
        steps = numbers.get(self._name) if self._name else None
        if steps is None:
            return None, None
        return steps, min((value for value in fixed if value >= steps), default=None)


def _last(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _numbers_in(frame: types.FrameType) -> dict[str, int]:
    """Whole numbers by name: variables of the frame, and attributes of what holds settings."""
    is_function = frame.f_code.co_flags & _OPTIMIZED
    names = dict(frame_locals(frame)) if is_function else frame.f_globals
    found = {name: value for name, value in list(names.items()) if _is_steps(name, value)}
    for holder in _HOLDERS:
        attributes = fields_of(names.get(holder, frame.f_globals.get(holder)))
        for name, value in list(attributes.items()):
            if _is_steps(name, value):
                found[f"{holder}.{name}"] = value
    return found


def _is_steps(name: Any, value: Any) -> bool:
    if type(value) is not int or type(name) is not str or not 0 <= value < _MOST_STEPS:
        return False
    last = name.lower()
    return bool(_STEPS.fullmatch(last) or _PLANNED.fullmatch(last))


@dataclass(frozen=True, slots=True)
class Bar:
    """A progress bar of tqdm's: done so far, and the total."""

    done: int
    total: int | None


def outermost_bar() -> Bar | None:
    """The bar that tqdm draws on top, if the program draws any."""
    instances = getattr(loaded("tqdm.std", "tqdm"), "_instances", None)
    for one in list(instances or ()):
        fields = fields_of(one)
        if fields.get("pos") == 0 and not fields.get("disable"):
            done, total = fields.get("n"), fields.get("total")
            if type(done) is int:
                return Bar(done, total if type(total) is int else None)
    return None
