"""What an object walk finds: blocks, what each account holds, long containers."""

from dataclasses import dataclass, field
from typing import Any

from ramledger.interpreter.array_storage import Storage, bytes_beside_data
from ramledger.interpreter.type_facts import basic_size
from ramledger.ledger import Source
from ramledger.objects.names.paths import Path

_MOST_SHARED = 3


@dataclass(slots=True)
class Block:
    """The memory of one array or large object, with the path that holds it."""

    storage: Storage
    where: Path
    account: str
    fill: float | None = None
    shared_with: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return str(self.where)

    def share_with(self, account: str) -> None:
        """Note another owner; one of the same account does not count."""
        if account.partition("/")[0] == self.account.partition("/")[0]:
            return
        if account not in self.shared_with and len(self.shared_with) < _MOST_SHARED:
            self.shared_with = (*self.shared_with, account)


@dataclass(slots=True)
class Holding:
    """Everything one account holds: blocks with addresses, and bytes without."""

    account: str
    source: Source
    blocks: list[Block] = field(default_factory=list)
    python_bytes: int = 0  # small objects, in CPython's arenas
    native_bytes: int = 0  # large object bodies and small arrays, in malloc's heap
    objects: int = 0
    owners: int = 0  # instances that the account is named after
    is_network: bool = False
    fill: float | None = None

    def add_header(self, array: Any) -> None:
        """What a small array takes beside its data."""
        self.python_bytes += basic_size(type(array))
        self.native_bytes += bytes_beside_data(array)


@dataclass(slots=True)
class Container:
    """A long container that was met on a walk: leaks are found by container."""

    where: Path
    type: str
    length: int
    element_type: str
    bytes: int
    account: str = ""
    capacity: int | None = None  # the length limit that it, or the object that holds it, states
    graphs: int = 0  # elements that are tensors with an autograd graph

    @property
    def path(self) -> str:
        return str(self.where)
