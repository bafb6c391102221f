"""Where a walk over the object graph stands, and what it will visit next."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from ramledger.ledger import Source
from ramledger.objects.paths import Path
from ramledger.objects.small_containers import SmallContainer


@dataclass(slots=True)  # frozen ones are slow to make
class Place:
    """Where the walk stands: the path so far, and the account it books to. Not changed later."""

    path: Path
    account: str
    source: Source
    fill: float | None = None
    by_field: bool = False
    capacity: int | None = None
    within: SmallContainer | None = None  # the nearest container around


class Waiting:
    """Objects to be visited, and where each was met: side by side, without a tuple for each."""

    def __init__(self) -> None:
        self.objects: deque[Any] = deque()
        self._places: deque[Place] = deque()

    def append(self, obj: Any, place: Place) -> None:
        self.objects.append(obj)
        self._places.append(place)

    def pop(self) -> tuple[Any, Place]:
        return self.objects.popleft(), self._places.popleft()

    def clear(self) -> None:
        self.objects.clear()
        self._places.clear()
