"""The queue of an object walk: objects to visit, and where each was found."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from ramledger.ledger import Source
from ramledger.objects.names.paths import Path
from ramledger.objects.small_containers import SmallContainer


@dataclass(slots=True)  # not frozen: frozen instances are slow to create
class Place:
    """The path to an object, and the account it is booked to. Not changed later."""

    path: Path
    account: str
    source: Source
    fill: float | None = None
    by_field: bool = False
    capacity: int | None = None
    within: SmallContainer | None = None  # the nearest container around


class Waiting:
    """Objects to visit and their places, in two queues: no tuple for each is needed."""

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
