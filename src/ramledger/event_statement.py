"""The statement within an event, as it is checked when a recording is read.

Readers get a `ledger.Statement`; these types only say what its document may hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ramledger.event_parts import ContainerContent, Document, Fill, Pid, Seconds, Sides, Size, Texts


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
    shared_with: Texts = ()
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
    containers: tuple[ContainerContent, ...] = ()
    malloc: MallocPart | None = None
    memory_pressure: Annotated[Any, Document()] = None
    pymalloc: Annotated[Any, Document()] = None
    gpu: Annotated[Any, Document()] = None
    torch_cuda: Annotated[Any, Document()] = None
    tensorflow: Annotated[Any, Document()] = None
    replays: Annotated[Any, Document()] = None  # see diagnose.own_replay


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
    notes: Texts = ()
