"""Containers that are short but hold much: twenty videos, eight agents with their histories.

They are walked element by element; what is booked below one is counted for it and for all
containers around it. Containers with the same path, such as `agents[*].history`, count as one.
"""

from dataclasses import dataclass, field
from typing import Any

from ramledger.interpreter.attributes import container_kind, elements
from ramledger.interpreter.type_facts import bare_name, type_name
from ramledger.objects.long_containers import commonest
from ramledger.objects.paths import Path
from ramledger.objects.roles import capacity_of

LEAST_LENGTH = 2
WORTH_BYTES = 128 * 1024
WORTH_GRAPHS = 3
MAX_ELEMENTS_TYPED = 8


@dataclass(slots=True, eq=False)
class SmallContainer:
    """All containers of one path, and those around them."""

    path: Path
    type: str
    account: str
    capacity: int | None
    around: "SmallContainer | None"
    element_type: str = ""
    length: int = 0
    bytes: int = 0
    graphs: int = 0  # tensors right in it that carry the graph that made them

    def holds(self, path: Path) -> bool:
        """Whether this is the path of an element, not of something within one."""
        return path.attributes == self.path.attributes

    def add(self, size: int) -> None:
        """Bytes found below it, and in no container between."""
        self.bytes += size


@dataclass(slots=True)
class SmallContainers:
    """All of one walk."""

    _found: dict[Path, SmallContainer] = field(default_factory=dict)

    def enter(
        self,
        obj: Any,
        length: int,
        path: Path,
        account: str,
        stated_capacity: int | None,
        around: SmallContainer | None,
    ) -> SmallContainer | None:
        """A container is met; what is to be told of what it holds, or that of the one around."""
        if length < LEAST_LENGTH:
            return around
        known = self._found.get(path)
        if known is None:
            capacity = capacity_of(obj, stated_capacity)
            known = SmallContainer(path, bare_name(type(obj)), account, capacity, around)
            kinds = _last_types(obj, length)
            known.element_type = type_name(commonest(kinds)) if kinds else ""
            self._found[path] = known
        else:
            known.capacity = None  # of each, not of all together
        known.length += length
        return known

    def that_hold_much(self) -> list[SmallContainer]:
        """Those that hold much, outer ones first. Once: what is within others is added to these."""
        found = list(self._found.values())
        for inner in reversed(found):  # who is around was met before
            if inner.around is not None:
                inner.around.bytes += inner.bytes
        return [one for one in found if one.bytes >= WORTH_BYTES or one.graphs >= WORTH_GRAPHS]


def _last_types(obj: Any, length: int) -> list[type]:
    """Of the last elements; none of these is held."""
    builtin: Any = container_kind(type(obj))
    if builtin is list or builtin is tuple:
        return list(map(type, builtin.__getitem__(obj, slice(-MAX_ELEMENTS_TYPED, None))))
    return list(map(type, elements(obj, length)))[-MAX_ELEMENTS_TYPED:]
