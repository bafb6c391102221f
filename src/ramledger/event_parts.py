"""What events are made of: kinds of numbers with their bounds, and records within records.

A field without a default is required; the rest is left out where a line does not have it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any


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
class Levels:
    """Five sizes: anon, file, shmem, swap, threads."""


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
ProcessLevels = Annotated[Mapping[str, Sequence[int]], Levels()]
OtherLevels = Annotated[Sequence[int], Levels()]
Sides = Annotated[tuple[int, ...], Shape()]
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LimitPart:
    bytes: Size
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPart:
    """One account of a statement."""

    account: str
    resident_bytes: Size
    reserved_bytes: Size
    source: str
    objects: Size | None = None
    fill: Fill | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeObjectPart:
    path: str
    account: str
    type: str
    resident_bytes: Size
    reserved_bytes: Size
    dtype: str = ""
    shape: Sides = ()
    fill: Fill | None = None
    shared_with: Names = ()
    pinned_by_view: bool = False


@dataclass(frozen=True, slots=True)
class TypeCountPart:
    type: str
    count: Size
    bytes: Size


@dataclass(frozen=True, slots=True)
class ArenaPart:
    index: Size
    free_bytes: Size
    in_use_bytes: Size = 0


@dataclass(frozen=True, slots=True)
class MallocPart:
    arenas: Size = 0
    in_use_bytes: Size = 0
    free_bytes: Size = 0
    mmapped_bytes: Size = 0
    top_bytes: Size = 0
    largest_arenas: tuple[ArenaPart, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadStacksPart:
    count: Size = 0
    reserved_bytes: Size = 0
    resident_bytes: Size = 0


@dataclass(frozen=True, slots=True)
class ContainerPart:
    path: str
    type: str = ""
    length: Size = 0
    of: str = ""
    bytes: Size = 0
    account: str = ""
    capacity: Capacity | None = None
    graphs: Size = 0
    added_in: Names = ()


@dataclass(frozen=True, slots=True)
class FactsPart:
    """What a statement knows beside its accounts; what no reader asks for is any data."""

    kind: str = ""
    allocator: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    thread_stacks: ThreadStacksPart | None = None
    thread_arenas: Size = 0
    huge_page_bytes: Size = 0
    tracked_objects: Size = 0
    tensors_with_graph: Size = 0
    containers: tuple[ContainerPart, ...] = ()
    malloc: MallocPart | None = None
    memory_pressure: Annotated[Any, Document()] = None
    pymalloc: Annotated[Any, Document()] = None
    gpu: Annotated[Any, Document()] = None
    torch_cuda: Annotated[Any, Document()] = None
    tensorflow: Annotated[Any, Document()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesPart:
    """What names lead to: a statement without the facts of a process."""

    rss_bytes: Size
    unexplained_bytes: Size = 0
    accounts: tuple[EntryPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPart:
    """`ramledger.statement/1` of one process, without its children."""

    schema: str
    pid: Pid
    command: str
    label: str = ""
    at: Seconds
    inside: bool = False
    rss_bytes: Size
    pss_bytes: Size = 0
    uss_bytes: Size = 0
    vms_bytes: Size = 0
    swap_bytes: Size = 0
    anon_bytes: Size = 0
    file_bytes: Size = 0
    shmem_bytes: Size = 0
    threads: Size = 0
    uptime_seconds: Seconds = 0.0
    limit: LimitPart | None = None
    unexplained_bytes: Size = 0
    accounts: tuple[EntryPart, ...]
    facts: FactsPart = field(default_factory=FactsPart)
    large_objects: tuple[LargeObjectPart, ...] = ()
    types: tuple[TypeCountPart, ...] = ()
    notes: Names = ()


@dataclass(frozen=True, slots=True)
class ViewsPart:
    """Blocks of one account that only views of small parts keep alive."""

    bytes: Size = 0
    of_bytes: Size = 0
    count: Size = 0
    type: str = ""
    shape: Sides = ()
    largest_bytes: Size = 0


@dataclass(frozen=True, slots=True)
class TracedFunctionPart:
    name: str
    instances: Size
    graphs: Size
    varies: Names = ()


@dataclass(frozen=True, slots=True)
class TensorflowPart:
    graphs: Size = 0
    operations: Size = 0
    eager_tensors: Size = 0
    variables: Size = 0
    functions: tuple[TracedFunctionPart, ...] = ()
    callers: Mapping[str, Mapping[str, Size]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoopPart:
    """The outermost loop: the function it is in, and the one that it calls."""

    function: str
    calls: str = ""


@dataclass(frozen=True, slots=True)
class ObjectStorePart:
    used_bytes: Size = 0
    pinned_bytes: Size = 0
    spilled_bytes: Size = 0
    capacity_bytes: Size = 0
    objects: Size = 0


@dataclass(frozen=True, slots=True)
class PlannedRamPart:
    needed_bytes: Size
    low_bytes: Size
    high_bytes: Size
    limit_bytes: Size | None = None


@dataclass(frozen=True, slots=True)
class PlannedAccountPart:
    account: str
    bytes: Size
    low_bytes: Size = 0
    high_bytes: Size = 0
    where: str = ""
    when: str = ""
    formula: str = ""
    transient: bool = False


@dataclass(frozen=True, slots=True)
class PlanPart:
    """`ramledger.plan/1`, as far as a run is compared with it."""

    ram: PlannedRamPart
    accounts: tuple[PlannedAccountPart, ...] = ()
    peak_bytes: Size = 0
    fits: bool | None = None
    schema: str = ""


@dataclass(frozen=True, slots=True)
class HostPart:
    cores: Size | None = None
    ram_bytes: Size | None = None
    system: str = ""
    python: str = ""


@dataclass(frozen=True, slots=True)
class SettingsPart:
    every_seconds: Seconds | None = None
    budget: Share | None = None


@dataclass(frozen=True, slots=True)
class ClusterPart:
    kind: str = ""
    run: str = ""
