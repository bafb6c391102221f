"""Containers that are short but hold much: twenty videos, eight agents with their histories.

They are walked element by element; what is booked below one is counted for it and for all
containers around it. Containers with the same path, such as `agents[*].history`, count as one.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ramledger.inside.attributes import elements
from ramledger.inside.recognize import capacity_of
from ramledger.inside.typenames import type_name

LEAST_LENGTH = 2
WORTH_BYTES = 128 * 1024
WORTH_GRAPHS = 3
MAX_ELEMENTS_TYPED = 8


@dataclass(slots=True)
class SmallContainer:
    """One container on the way of a walk, and the one around it."""

    path: str
    type: str
    length: int
    element_types: Counter[str]
    account: str
    capacity: int | None
    around: "SmallContainer | None"
    bytes: int = 0
    graphs: int = 0  # tensors right in it that carry the graph that made them

    @property
    def element_type(self) -> str:
        """The commonest; '' where another thread has just emptied it."""
        return next((name for name, _ in self.element_types.most_common(1)), "")

    def holds(self, path: str) -> bool:
        """Whether this is the path of an element, not of something within one."""
        return "." not in path[len(self.path) :]

    def add(self, size: int) -> None:
        """Bytes found below it."""
        node: SmallContainer | None = self
        while node is not None:
            node.bytes += size
            node = node.around


@dataclass(slots=True)
class SmallContainers:
    """All of one walk."""

    _found: list[SmallContainer] = field(default_factory=list)

    def enter(
        self,
        obj: Any,
        length: int,
        path: str,
        account: str,
        stated_capacity: int | None,
        around: SmallContainer | None,
    ) -> SmallContainer | None:
        """A container is met; what is to be told of what it holds, or that of the one around."""
        if length < LEAST_LENGTH:
            return around
        types = Counter(map(type, elements(obj)[-MAX_ELEMENTS_TYPED:]))
        found = SmallContainer(
            path,
            type(obj).__name__,
            length,
            Counter({type_name(kind): count for kind, count in types.items()}),
            account,
            capacity_of(obj, stated_capacity),
            around,
        )
        self._found.append(found)
        return found

    def worth_telling(self) -> Iterable[SmallContainer]:
        """One a path, with the sums over all that share it; outer ones first."""
        by_path: dict[str, SmallContainer] = {}
        for found in self._found:
            known = by_path.get(found.path)
            if known is None:
                by_path[found.path] = found
            else:
                known.length += found.length
                known.bytes += found.bytes
                known.graphs += found.graphs
                known.element_types += found.element_types
                known.capacity = None  # of each, not of all together
        return [
            found
            for found in by_path.values()
            if found.bytes >= WORTH_BYTES or found.graphs >= WORTH_GRAPHS
        ]
