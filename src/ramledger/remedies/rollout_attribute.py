"""`buffer.observations`: rows for the code of stable-baselines3, an array for everybody else.

So a callback or a subclass that reads or changes observations does it with an array, as always.
"""

import sys
from contextlib import suppress
from typing import Any, Protocol

from ramledger.remedies.rollout_rows import FlatRows, RolloutRows

NAME = "observations"
_LIBRARIES = ("stable_baselines3.", "sb3_contrib.")


class Listener(Protocol):
    """Who is told of reads."""

    def batch_read(self, buffer: Any) -> None: ...
    def used_elsewhere(self, buffer: Any, where: str) -> None: ...


class ObservationsAttribute:
    """A data descriptor over the instance's own entry of that name."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __get__(self, buffer: Any, owner: Any = None) -> Any:
        if buffer is None or NAME not in vars(buffer):
            kind = owner if buffer is None else type(buffer)
            raise AttributeError(f"{kind.__name__!r} object has no attribute {NAME!r}")
        held = vars(buffer)[NAME]
        reader = sys._getframe(1)
        module = reader.f_globals.get("__name__")
        if isinstance(module, str) and module.startswith(_LIBRARIES):
            if vars(buffer).get("generator_ready"):
                with suppress(Exception):
                    self._listener.batch_read(buffer)
        elif has_rows(held):
            vars(buffer)[NAME] = held = _as_arrays(held)
            with suppress(Exception):
                self._listener.used_elsewhere(buffer, f"{module}, line {reader.f_lineno}")
        return held

    def __set__(self, buffer: Any, value: Any) -> None:
        vars(buffer)[NAME] = value

    def __delete__(self, buffer: Any) -> None:
        if vars(buffer).pop(NAME, self) is self:
            raise AttributeError(NAME)


def rows_of(value: Any) -> RolloutRows | None:
    """The rows behind what a buffer holds, flattened or not."""
    if type(value) is FlatRows:
        return value.rows
    return value if type(value) is RolloutRows else None


def has_rows(held: Any) -> bool:
    """Whether there is anything but arrays."""
    values = held.values() if type(held) is dict else (held,)
    return any(rows_of(value) is not None for value in values)


def _as_arrays(held: Any) -> Any:
    if type(held) is not dict:
        return held.as_array()
    for key, value in held.items():
        if rows_of(value) is not None:
            held[key] = value.as_array()
    return held
