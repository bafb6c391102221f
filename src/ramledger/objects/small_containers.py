"""Short containers that hold many bytes: twenty videos, eight agents with their histories.

They are walked element by element. Bytes below a container count for it and for all containers
around it. Containers with the same path, such as `agents[*].history`, count as one.
"""

from dataclasses import dataclass, field
from typing import Any

from ramledger.interpreter.attributes import container_kind, elements
from ramledger.interpreter.type_facts import bare_name, type_name
from ramledger.objects.holdings import Container
from ramledger.objects.long_containers import commonest
from ramledger.objects.names.paths import Path
from ramledger.objects.roles import capacity_of

LEAST_LENGTH = 2
WORTH_BYTES = 128 * 1024
WORTH_GRAPHS = 1  # a hidden state is a tuple of two
MAX_ELEMENTS_TYPED = 8
_WALKED_ALIKE = 16
_LEAST_ALIKE = 16


@dataclass(slots=True, eq=False)
class SmallContainer:
    """All containers of one path together; `around` is the container around them."""

    path: Path
    type: str
    account: str
    capacity: int | None
    around: "SmallContainer | None"
    element_type: str = ""
    count: int = 0  # containers of this path
    length: int = 0
    bytes: int = 0
    graphs: int = 0  # elements that are tensors with an autograd graph

    def is_known_well(self, length: int) -> bool:
        """Whether so many of them are walked that further ones may count as alike.

        Of a thousand episodes with two hundred pictures each, no more is learned from the rest.
        """
        return self.count > _WALKED_ALIKE and length >= _LEAST_ALIKE and not self.graphs

    def holds(self, path: Path) -> bool:
        """Whether this is the path of an element, not of something inside an element."""
        return path.attributes == self.path.attributes

    def add(self, size: int) -> None:
        """Add bytes found below it and in no container in between."""
        self.bytes += size


@dataclass(slots=True)
class SmallContainers:
    """All short containers of one walk."""

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
        """Note a container; returns the record that its content counts for."""
        if length < LEAST_LENGTH:
            return around
        known = self._found.get(path)
        capacity = capacity_of(obj, stated_capacity)
        if known is None:
            known = SmallContainer(path, bare_name(type(obj)), account, capacity, around)
            kinds = _last_types(obj, length)
            known.element_type = type_name(commonest(kinds)) if kinds else ""
            self._found[path] = known
        else:
            known.capacity = capacity_together(known.capacity, capacity)
        known.length += length
        known.count += 1
        return known

    def that_hold_much(self) -> list[Container]:
        """Those that hold much, the largest and outer ones first.

        Call once: it adds inner bytes to outer ones.
        """
        found = list(self._found.values())
        for inner in reversed(found):  # outer containers were met first
            if inner.around is not None:
                inner.around.bytes += inner.bytes
        rows = [
            Container(
                one.path, one.type, one.length, one.element_type, one.bytes, one.account,
                one.capacity, one.graphs,
            )
            for one in found
            if one.bytes >= WORTH_BYTES or one.graphs >= WORTH_GRAPHS
        ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.bytes)


def capacity_together(one: int | None, other: int | None) -> int | None:
    """Of containers with one name, such as the deques in a dictionary; None if one has no end."""
    return None if one is None or other is None else one + other


def _last_types(obj: Any, length: int) -> list[type]:
    """Types of the last elements; keeps no reference to an element."""
    builtin: Any = container_kind(type(obj))
    if builtin is list or builtin is tuple:
        return list(map(type, builtin.__getitem__(obj, slice(-MAX_ELEMENTS_TYPED, None))))
    return list(map(type, elements(obj, length)))[-MAX_ELEMENTS_TYPED:]
