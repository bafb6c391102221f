"""Gymnasium environments that the program resets and closes, counted as it goes.

Counting begins with `gymnasium.core`: classes made later get counting methods. Wrappers are left
out, and a class that calls its parent's method counts once.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

MODULE = "gymnasium.core"
_METHODS = ("reset", "close")


class Counts:
    """What happened since they were last taken."""

    def __init__(self) -> None:
        self._numbers = dict.fromkeys(_METHODS, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        """It stays in its process: a class that goes to another one arrives without it."""
        return type(None), ()

    def add(self, method: str) -> None:
        self._numbers[method] += 1

    def take(self) -> dict[str, int]:
        """{"resets": n, "closes": n} since the last time; empty where nothing happened."""
        taken, self._numbers = self._numbers, dict.fromkeys(_METHODS, 0)
        return {f"{name}s": number for name, number in taken.items()} if any(taken.values()) else {}


COUNTS = Counts()


def _counted(function: Callable[..., Any], name: str, counts: Counts) -> Callable[..., Any]:
    """`function`, counted where it is the outermost of its name in its object.

    A class that goes to a worker by value (cloudpickle) must not need ramledger there: this names
    nothing but what it closes over, and arrives without counts.
    """

    @functools.wraps(function)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if counts and type(self).__dict__.get(name, counted) is counted:
            counts.add(name)
        return function(self, *args, **kwargs)

    return counted


def count_environments(module: types.ModuleType) -> None:
    """Count in all classes of environments that are made from now on."""
    base: Any = module.Env
    wrapper: Any = module.Wrapper

    def init_subclass(cls: Any, /, **kwargs: Any) -> None:
        super(base, cls).__init_subclass__(**kwargs)
        if not issubclass(cls, wrapper):
            _count_in(cls)

    base.__init_subclass__ = classmethod(init_subclass)


def _count_in(cls: Any) -> None:
    for name in _METHODS:
        function = cls.__dict__.get(name)
        if type(function) is types.FunctionType:
            setattr(cls, name, _counted(function, name, COUNTS))
