"""Replay buffers of the program's own that a walk has met, with the lines of code that use them."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ramledger.objects.holdings import Container, Holding
from ramledger.objects.names.code_sites import lines_that_add_to, lines_that_assign, lines_that_draw
from ramledger.objects.names.paths import Path
from ramledger.objects.replays.ring_arrays import ARRAYS, ring_arrays
from ramledger.objects.replays.transitions import (
    LEAST_LENGTH,
    TransitionContent,
    transition_content,
)
from ramledger.objects.roles import capacity_of
from ramledger.objects.walk_queue import Place

_MOST_KNOWN = 200
_MOST_LISTED = 5
_WORTH_BYTES = 1 << 20

# by name, how long it was and what it held: it is looked at again when it has doubled
_known: dict[str, tuple[int, TransitionContent | None]] = {}


@dataclass(frozen=True, slots=True)
class FoundReplay:
    """One buffer. `bytes` is all that its transitions hold, as far as it is resident."""

    path: str
    accounts: tuple[str, ...]  # of arrays, several
    length: int
    capacity: int | None
    content: TransitionContent
    bytes: int = 0

    @property
    def is_arrays(self) -> bool:
        return self.content.element == ARRAYS

    def to_dict(self) -> dict[str, Any]:
        """A fact of a statement; plain data."""
        return asdict(self) | {
            "made_in": self._lines(lines_that_assign),
            "added_in": self._lines(lines_that_add_to),
            "drawn_in": self._lines(lines_that_draw),
        }

    def _lines(self, search: Callable[[str], tuple[str, ...]]) -> dict[str, str]:
        """One line of code a field, for a buffer of arrays; else one for the container."""
        if not self.is_arrays:
            names = {"": self.path}
        else:
            names = {field.name: f"{self.path}.{field.name}" for field in self.content.fields}
        return {name: lines[0] for name, path in names.items() if (lines := search(path))}


@dataclass(slots=True)
class ReplaysFound:
    """Those of one walk; it keeps no object alive."""

    _found: list[FoundReplay] = field(default_factory=list)
    _met: set[Path] = field(default_factory=set)

    def look(self, container: Any, length: int, place: Place) -> None:
        """Note a container if it holds transitions; of many with one name, the first is read."""
        if length < LEAST_LENGTH or place.path in self._met:
            return
        self._met.add(place.path)
        path = str(place.path)
        looked_at, content = _known.get(path, (0, None))
        if not looked_at <= length < 2 * looked_at:
            if path not in _known and len(_known) >= _MOST_KNOWN:
                return
            try:
                content = transition_content(container, length)
            except Exception:  # the program changes it meanwhile: its size is still booked
                content = None
            _known[path] = (length, content)
        if content is not None:
            capacity = capacity_of(container, place.capacity)
            self._found.append(FoundReplay(path, (place.account,), length, capacity, content))

    def listed(
        self, containers: Iterable[Container], holdings: Iterable[Holding]
    ) -> list[FoundReplay]:
        """Those that hold much, the largest first."""
        sizes = {container.path: container.bytes for container in containers}
        found = [replace(one, bytes=sizes.get(one.path, 0)) for one in self._found]
        for ring, content in ring_arrays(holdings):
            accounts = tuple(dict.fromkeys(block.account for block in ring.arrays.values()))
            each = sum(part.bytes for part in content.fields)
            found.append(
                FoundReplay(
                    str(ring.holder), accounts, ring.filled_rows, ring.rows, content,
                    each * ring.filled_rows,
                )
            )  # fmt: skip
        worth = [one for one in found if one.bytes >= _WORTH_BYTES]
        return sorted(worth, key=lambda one: -one.bytes)[:_MOST_LISTED]
