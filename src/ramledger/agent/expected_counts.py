"""How many live objects of a class the program expects, compared with every snapshot's counts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrongCount:
    """A class with another number of live objects than expected."""

    type: str
    expected: int
    found: int


class ExpectedCounts:
    """Expected counts by class name. A wrong count is reported once, until it changes."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self._reached: set[str] = set()  # before that, objects are still being made
        self._reported: dict[str, int] = {}

    def wrong_in(self, counts: Mapping[str, int]) -> Iterator[WrongCount]:
        """What is wrong in the counts of a snapshot, by full names of classes; none if empty."""
        for name, expected in self.counts.items() if counts else ():
            found = sum(n for kind, n in counts.items() if kind.rpartition(".")[2] == name)
            if found >= expected:
                self._reached.add(name)
            elif name not in self._reached:
                continue
            if found != expected and self._reported.get(name) != found:
                self._reported[name] = found
                yield WrongCount(name, expected, found)
