"""READ SECOND. What a recording consists of: a header, then one frozen dataclass an event.

A field without a default is required. `event_codec` checks every line against these types, once,
before any reader sees it: unknown fields are left out, a malformed event is dropped and counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ramledger.event_parts import (
    Change,
    ClusterPart,
    Code,
    ContainerPart,
    Generation,
    HostPart,
    LimitPart,
    LoopPart,
    Names,
    NamesPart,
    ObjectStorePart,
    OtherLevels,
    Pid,
    PlanPart,
    ProcessLevels,
    Seconds,
    SettingsPart,
    Size,
    StatementPart,
    TensorflowPart,
    ViewsPart,
)


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a recording."""

    schema: str
    ramledger: str = ""
    started_at: Seconds | None = None
    command: Names = ()
    directory: str = ""
    host: HostPart | None = None
    limit: LimitPart | None = None
    settings: SettingsPart | None = None
    cluster: ClusterPart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all have: seconds since the recording began."""

    kind: ClassVar[str] = ""
    t: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEvent(Event):
    kind: ClassVar[str] = "process"
    pid: Pid
    parent: Pid = 0
    command: str = ""
    agent: bool = False
    worker: bool = False
    python: str = ""
    inherited_bytes: Size | None = None
    name: str = ""
    role: str = ""
    node: str = ""
    node_pid: Pid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEndEvent(Event):
    kind: ClassVar[str] = "process-end"
    pid: Pid
    exit_code: Code | None = None
    signal: Code | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleEvent(Event):
    kind: ClassVar[str] = "sample"
    processes: ProcessLevels
    others: OtherLevels | None = None
    others_inherited_bytes: Size = 0
    low: Size | None = None
    high: Size | None = None
    used_bytes: Size | None = None
    tree_pss_bytes: Size | None = None
    shm_bytes: Size = 0
    usage_bytes: Size | None = None
    available_bytes: Size | None = None
    generation: Generation | None = None
    stale: tuple[Pid, ...] = ()
    nodes: Mapping[str, Size] = field(default_factory=dict)
    stores: Mapping[str, Size] = field(default_factory=dict)
    object_store: ObjectStorePart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEvent(Event):
    kind: ClassVar[str] = "phase"
    pid: Pid
    name: str
    generation: Generation | None = None
    seconds: Seconds = 0.0
    count: Size = 1
    measured: Size = 1
    growth_bytes: Change | None = None
    net_growth_bytes: Change | None = None
    shm_growth_bytes: Change = 0
    children_growth_bytes: Change = 0
    before_bytes: Size = 0
    after_bytes: Size = 0
    peak_bytes: Size = 0
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEvent(Event):
    kind: ClassVar[str] = "generation"
    pid: Pid
    generation: Generation
    seconds: Seconds = 0.0
    rss_bytes: Size | None = None
    anon_bytes: Size = 0
    file_bytes: Size = 0
    shmem_bytes: Size = 0
    count: Size = 1
    origin: str = ""
    final: bool = False
    net_growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    added: Mapping[str, Mapping[str, Change]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BooksEvent(Event):
    kind: ClassVar[str] = "books"
    pid: Pid
    generation: Generation | None = None
    malloc_in_use_bytes: Size | None = None
    malloc_free_bytes: Size | None = None
    python_used_bytes: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEvent(Event):
    kind: ClassVar[str] = "snapshot"
    pid: Pid
    generation: Generation | None = None
    phase: str = ""
    label: str = ""
    statement: StatementPart
    containers: tuple[ContainerPart, ...] = ()
    views: Mapping[str, ViewsPart] = field(default_factory=dict)
    counts: Mapping[str, Size] = field(default_factory=dict)
    first_counts: Mapping[str, Size] = field(default_factory=dict)
    user_classes: Names = ()
    sizes: Mapping[str, tuple[Size, Size]] = field(default_factory=dict)
    tensors_with_graph: Size = 0
    graph_depth: Size = 0
    tensorflow: TensorflowPart | None = None
    watched: Mapping[str, Names] = field(default_factory=dict)
    tracked_objects: Size = 0
    gc_enabled: bool = True
    gc_threshold: Change = 700
    gc_frozen: Size = 0
    frame_holders: Mapping[str, Size] = field(default_factory=dict)
    record_classes: Names = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    cost_seconds: Seconds = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesEvent(Event):
    kind: ClassVar[str] = "names"
    pid: Pid
    generation: Generation | None = None
    phase: str = ""
    statement: NamesPart
    containers: tuple[ContainerPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineEvent(Event):
    kind: ClassVar[str] = "outline"
    pid: Pid
    statement: StatementPart


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionsEvent(Event):
    kind: ClassVar[str] = "functions"
    pid: Pid
    samples: Size = 0
    growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    children_growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    shm_growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    seconds: Mapping[str, Seconds] = field(default_factory=dict)
    loop: LoopPart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFailedEvent(Event):
    kind: ClassVar[str] = "snapshot-failed"
    pid: Pid
    generation: Change | None = None
    phase: str = ""
    label: str = ""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationEvent(Event):
    kind: ClassVar[str] = "expectation"
    pid: Pid = 0
    type: str
    expected: Size
    found: Size
    generation: Generation | None = None
    phase: str = ""
    paths: Names = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureEvent(Event):
    kind: ClassVar[str] = "pressure"
    usage_bytes: Size
    limit_bytes: Size
    action: str = ""
    callbacks: Size = 0
    seconds_left: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElsewhereEvent(Event):
    kind: ClassVar[str] = "elsewhere"
    name: str
    node: str = ""
    pid: Pid = 0
    rss_bytes: Size | None = None
    pss_bytes: Size | None = None
    uss_bytes: Size | None = None
    limit: LimitPart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteEvent(Event):
    kind: ClassVar[str] = "note"
    text: str
    pid: Pid = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvent(Event):
    kind: ClassVar[str] = "plan"
    pid: Pid = 0
    plan: PlanPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEvent(Event):
    kind: ClassVar[str] = "probe"
    pid: Pid
    anon_bytes: Size = 0
    rss_bytes: Size | None = None  # instead of the one before, in recordings of old
    after_collect_bytes: Size
    collected_objects: Size = 0
    after_trim_bytes: Size
    live: bool = False
    generation: Generation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitEvent(Event):
    """The program's last line is over: what is seen later is its aftermath."""

    kind: ClassVar[str] = "exit"
    pid: Pid


@dataclass(frozen=True, slots=True, kw_only=True)
class NowEvent(Event):
    """What a process does at this moment; shown live, never written."""

    kind: ClassVar[str] = "now"
    pid: Pid
    generation: Generation | None = None
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent(Event):
    kind: ClassVar[str] = "node"
    node: str
    limit_bytes: Size | None = None
    limit_source: str = ""
    kill_bytes: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEvent(Event):
    kind: ClassVar[str] = "end"
    exit_code: Code | None = None
    signal: Code | None = None
    peak_bytes: Size | None = None
    killed_by_kernel: bool = False
    dropped_events: Size = 0
    cost_seconds: Seconds = 0.0


EVENTS: Mapping[str, type[Event]] = {
    event.kind: event
    for event in (
        ProcessEvent,
        ProcessEndEvent,
        SampleEvent,
        PhaseEvent,
        GenerationEvent,
        BooksEvent,
        SnapshotEvent,
        NamesEvent,
        OutlineEvent,
        FunctionsEvent,
        SnapshotFailedEvent,
        ExpectationEvent,
        PressureEvent,
        ElsewhereEvent,
        NoteEvent,
        PlanEvent,
        ProbeEvent,
        ExitEvent,
        NowEvent,
        NodeEvent,
        EndEvent,
    )
}
