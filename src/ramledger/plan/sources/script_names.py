"""Names of a script and their values while it is followed, as they were at any place in it.

What a place knows is a number in a history, not a copy: 60,000 calls among 60,000 names stay small.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

MAX_STEPS = 1_000_000

_GONE = object()


class Work:
    """How much of a script may still be evaluated; all names of one script share it."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int) -> bool:
        """Whether there was enough left."""
        self._left -= steps
        return self._left >= 0


class Names(Mapping[str, Any]):
    """What a scope knew at one moment; it does not see what comes later."""

    __slots__ = ("_moment", "_scope")

    def __init__(self, scope: "Scope", moment: int) -> None:
        self._scope = scope
        self._moment = moment

    @property
    def work(self) -> Work:
        return self._scope.work

    def __getitem__(self, name: str) -> Any:
        names: Names | None = self
        while names is not None:
            value = names._scope.at(name, names._moment)
            if value is not None:
                if value[0] is _GONE:
                    break
                return value[0]
            names = names._scope.around
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        seen: set[str] = set()
        names: Names | None = self
        while names is not None:
            for name in names._scope.set_here():
                value = names._scope.at(name, names._moment)
                if value is not None and name not in seen:
                    seen.add(name)
                    if value[0] is not _GONE:
                        yield name
            names = names._scope.around

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Scope(MutableMapping[str, Any]):
    """Names that can be set, on top of what was known where the scope begins."""

    __slots__ = ("_history", "_moment", "around", "work")

    def __init__(self, around: Names | None = None) -> None:
        self.around = around
        self.work: Work = around.work if around is not None else Work()
        self._history: dict[str, tuple[list[int], list[Any]]] = {}
        self._moment = 0

    def now(self) -> Names:
        """What is known at this moment, for as long as it is needed."""
        return Names(self, self._moment)

    def inner(self) -> "Scope":
        """A scope that begins with what is known here."""
        return Scope(self.now())

    def add_missing(self, inner: "Scope") -> None:
        """Take over what an inner scope has set and nobody here has."""
        for name in inner.set_here():
            if name in inner:
                self.setdefault(name, inner[name])

    def at(self, name: str, moment: int) -> tuple[Any] | None:
        """The value that this very scope had given a name by then, in a tuple; None if none."""
        found = self._history.get(name)
        if found is None:
            return None
        index = bisect_right(found[0], moment) - 1
        return None if index < 0 else (found[1][index],)

    def set_here(self) -> list[str]:
        """Names that this scope has set or deleted."""
        return list(self._history)

    def __getitem__(self, name: str) -> Any:
        return self.now()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._moment += 1
        moments, values = self._history.setdefault(name, ([], []))
        moments.append(self._moment)
        values.append(value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self[name] = _GONE

    def __iter__(self) -> Iterator[str]:
        return iter(self.now())

    def __len__(self) -> int:
        return len(self.now())
