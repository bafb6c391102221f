"""A search of Optuna's in a rehearsal: its storage stays untouched, and its corners can be tried.

Studies are made in memory, so a trial that a rehearsal cuts off is not left in the user's storage.
At a corner every suggestion is the lowest or the highest of its range; suggestions are reported.
"""

import functools
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ramledger.interpreter.loaded_modules import attributes_of, namespace, set_attribute

TRIALS = "optuna.trial._trial"
STORAGES = "optuna.storages"
LOWEST, HIGHEST = "low", "high"

Say = Callable[[str, Any, Any, Any], None]  # name, value, lowest, highest


def report_suggestions(say: Say, corner: str = "") -> Callable[[types.ModuleType], None]:
    """For the module of trials: each suggestion is said once, and pinned to a corner if asked."""

    def hook(module: types.ModuleType) -> None:
        trial = namespace(module).get("Trial")
        function = attributes_of(trial).get("_suggest")
        if type(function) is types.FunctionType:
            set_attribute(trial, "_suggest", _reported(function, say, corner))

    return hook


def keep_in_memory(module: types.ModuleType) -> None:
    """For the module of storages: `create_study` takes one in memory, whatever it is given."""
    function = namespace(module).get("get_storage")
    if type(function) is not types.FunctionType:
        return

    @functools.wraps(function)
    def get_storage(storage: Any) -> Any:
        if sys._getframe(1).f_code.co_name == "create_study":
            return function(None)
        return function(storage)

    set_attribute(module, "get_storage", get_storage)


def _reported(function: Callable[..., Any], say: Say, corner: str) -> Any:
    said: set[str] = set()

    @functools.wraps(function)
    def suggest(self: Any, name: str, distribution: Any) -> Any:
        ends = None
        with suppress(Exception):  # of another version: the suggestion stays the sampler's
            ends = _ends(distribution)
            if corner and ends is not None:
                pinned = ends[1] if corner == HIGHEST else ends[0]
                self._fixed_params = {**self._fixed_params, name: pinned}
        value = function(self, name, distribution)
        if name not in said and ends is not None:
            said.add(name)
            with suppress(Exception):
                say(name, value, *ends)
        return value

    return suggest


def _ends(distribution: Any) -> tuple[Any, Any] | None:
    """Lowest and highest of a range; of choices the smallest and largest, as far as they compare.

    Lists of layers compare by their sums; choices that are no sizes keep to the sampler's.
    """
    choices = getattr(distribution, "choices", None)
    if choices is None:
        return distribution.low, distribution.high
    sizes = [_size(choice) for choice in choices]
    if any(size is None for size in sizes):
        return None
    order = sorted(range(len(choices)), key=lambda at: sizes[at] or 0.0)
    return choices[order[0]], choices[order[-1]]


def _size(choice: Any) -> float | None:
    if isinstance(choice, bool | int | float):
        return float(choice)
    if isinstance(choice, list | tuple) and all(type(part) in (int, float) for part in choice):
        return float(sum(choice))
    return None
