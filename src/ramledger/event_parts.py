"""What events are made of: kinds of numbers with their bounds, and records within records.

A field without a default is required; the rest is left out where a line does not have it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from ramledger.ledger import Account


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number between two bounds, both of which it may reach.

    `or_none`: a program states it of its own objects, and what is beyond the bounds tells nothing.
    `as_text`: NumPy's integers may have been written as text.
    """

    least: int
    most: int
    or_none: bool = False
    as_text: bool = False


@dataclass(frozen=True, slots=True)
class Real:
    """A finite number between two bounds, kept to so many digits after the point."""

    least: float
    most: float
    digits: int
    or_none: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """The sides of an array; none where its elements cannot be counted in 63 bits."""


@dataclass(frozen=True, slots=True)
class Document:
    """Data of any form, bounded in depth and length, every number finite."""


MOST = (1 << 63) - 1
MOST_SECONDS = 1e12

Size = Annotated[int, Whole(0, MOST)]  # bytes, or a count of things
Change = Annotated[int, Whole(-MOST, MOST)]  # bytes or a count, gained or lost
Pid = Annotated[int, Whole(0, (1 << 53) - 1)]
Code = Annotated[int, Whole(-(1 << 31), (1 << 31) - 1)]  # an exit code, a signal
# a microsecond is the least that two times differ by: no rate derived from them overflows
Seconds = Annotated[float, Real(-MOST_SECONDS, MOST_SECONDS, 6)]
Share = Annotated[float, Real(0.0, 1e6, 9)]
Fill = Annotated[float, Real(0.0, 1e6, 9, or_none=True)]
Capacity = Annotated[int, Whole(0, MOST, or_none=True)]
Generation = Annotated[int, Whole(-MOST, MOST, as_text=True)]
Sides = Annotated[tuple[int, ...], Shape()]
Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """What one process holds, in the kernel's own counters."""

    anon_bytes: Size = 0
    file_bytes: Size = 0
    shmem_bytes: Size = 0
    swap_bytes: Size = 0
    threads: Size = 0

    @property
    def resident_bytes(self) -> int:
        return self.anon_bytes + self.file_bytes + self.shmem_bytes


@dataclass(frozen=True, slots=True)
class ContainerContent:
    path: str
    type: str = ""
    length: Size = 0
    of: str = ""
    bytes: Size = 0
    account: str = ""
    capacity: Capacity | None = None
    graphs: Size = 0
    added_in: Texts = ()


@dataclass(frozen=True, slots=True)
class ViewPins:
    """Blocks of one account that only views of small parts keep alive."""

    bytes: Size = 0
    of_bytes: Size = 0
    count: Size = 0
    type: str = ""
    shape: Sides = ()
    largest_bytes: Size = 0


@dataclass(frozen=True, slots=True)
class TracedFunction:
    name: str
    instances: Size
    graphs: Size
    varies: Texts = ()


@dataclass(frozen=True, slots=True)
class TensorflowFacts:
    graphs: Size = 0
    variables: Size = 0
    functions: tuple[TracedFunction, ...] = ()
    callers: Mapping[str, Mapping[str, Size]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoopPlace:
    """The outermost loop: the function it is in, and the one that it calls."""

    function: str
    calls: str = ""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    used_bytes: Size = 0
    pinned_bytes: Size = 0
    spilled_bytes: Size = 0
    capacity_bytes: Size = 0
    objects: Size = 0


@dataclass(frozen=True, slots=True)
class PlannedRam:
    needed_bytes: Size
    low_bytes: Size
    high_bytes: Size
    limit_bytes: Size | None = None


@dataclass(frozen=True, slots=True)
class PlannedAccount(Account):
    bytes: Size
    low_bytes: Size = 0
    high_bytes: Size = 0
    where: str = ""
    when: str = ""
    formula: str = ""
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """`ramledger.plan/1`, as far as a run is compared with it."""

    ram: PlannedRam
    accounts: tuple[PlannedAccount, ...] = ()
    peak_bytes: Size = 0
    fits: bool | None = None
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    cores: Size | None = None
    ram_bytes: Size | None = None
    system: str = ""
    python: str = ""


@dataclass(frozen=True, slots=True)
class RunSettings:
    every_seconds: Seconds | None = None
    budget: Share | None = None
    iterations: Size | None = None  # that are planned


@dataclass(frozen=True, slots=True)
class Cluster:
    kind: str = ""
    run: str = ""
