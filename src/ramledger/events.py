"""READ SECOND. What a recording consists of: a header, then one frozen dataclass an event.

A field without a default is required. `event_codec` checks every line against these types, once,
before any reader sees it: unknown fields are left out, a malformed event is dropped and counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ramledger.event_parts import (
    Change,
    Cluster,
    Code,
    ContainerContent,
    Generation,
    Host,
    LoopPlace,
    ObjectStore,
    Pid,
    Plan,
    ProcessMemory,
    RunSettings,
    Seconds,
    Size,
    TensorflowFacts,
    Texts,
    ViewPins,
)
from ramledger.ledger import Limit, Statement


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a recording."""

    schema: str = ""
    ramledger: str = ""
    started_at: Seconds | None = None
    command: Texts = ()
    directory: str = ""
    host: Host | None = None
    limit: Limit | None = None
    settings: RunSettings | None = None
    cluster: Cluster | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have: `t`, seconds since the recording began.

    Between an agent and the recorder, `t` is the machine's monotonic clock.
    """

    kind: ClassVar[str] = ""
    t: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEvent(Event):
    kind: ClassVar[str] = "process"
    pid: Pid
    parent_pid: Pid = 0
    command: str = ""
    has_agent: bool = False
    is_worker: bool = False
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
    processes: Mapping[int, ProcessMemory]
    other_processes: ProcessMemory | None = None  # the sum of those that are not listed
    other_inherited_bytes: Size = 0
    low_bytes: Size | None = None  # of the tree, since the sample before
    high_bytes: Size | None = None
    tree_bytes: Size | None = None  # shared pages counted once
    tree_pss_bytes: Size | None = None
    shm_bytes: Size = 0
    cgroup_bytes: Size | None = None
    available_bytes: Size | None = None
    generation: Generation | None = None
    stale_pids: tuple[Pid, ...] = ()
    object_store: ObjectStore | None = None
    private_bytes: Mapping[int, Size] = field(default_factory=dict)  # anonymous, with PSS
    pss_bytes: Mapping[int, Size] = field(default_factory=dict)  # shown live, never written


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEvent(Event):
    kind: ClassVar[str] = "phase"
    pid: Pid
    name: str
    generation: Generation | None = None
    seconds: Seconds = 0.0
    passes: Size = 1
    measured_passes: Size = 1
    growth_bytes: Change | None = None
    net_growth_bytes: Change | None = None
    shm_growth_bytes: Change = 0
    children_growth_bytes: Change = 0
    before_bytes: Size = 0
    after_bytes: Size = 0
    peak_bytes: Size = 0
    origin: str = ""

    @property
    def grown_bytes(self) -> int:
        """Net growth in all passes; where only some were measured, what those tell of all."""
        if self.net_growth_bytes is not None:
            return self.net_growth_bytes
        if self.growth_bytes is None:
            return self.after_bytes - self.before_bytes
        return round(self.growth_bytes * max(1.0, self.passes / max(1, self.measured_passes)))


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
    passes: Size = 1
    origin: str = ""
    is_final: bool = False
    steps: Size | None = None  # of environments, so far
    planned_steps: Size | None = None
    last_generation: Generation | None = None  # that is planned
    net_growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    elements_added: Mapping[str, Mapping[str, Change]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationsEvent(Event):
    """From here on somebody counts iterations; what was counted before is start-up."""

    kind: ClassVar[str] = "iterations"
    pid: Pid
    origin: str = ""
    counted_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorsEvent(Event):
    """What malloc and CPython say of themselves."""

    kind: ClassVar[str] = "allocators"
    pid: Pid
    generation: Generation | None = None
    malloc_in_use_bytes: Size | None = None
    malloc_free_bytes: Size | None = None
    python_in_use_bytes: Size | None = None


# keys of a snapshot's `code_lines`, before an owner and a class
BEGINS, UNCLOSED = "begins/", "unclosed/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEvent(Event):
    kind: ClassVar[str] = "snapshot"
    pid: Pid
    generation: Generation | None = None
    phase: str = ""
    label: str = ""
    statement: Statement
    containers: tuple[ContainerContent, ...] = ()
    pinned_by_views: Mapping[str, ViewPins] = field(default_factory=dict)  # by account
    live_objects: Mapping[str, Size] = field(default_factory=dict)  # by type
    first_live_objects: Mapping[str, Size] = field(default_factory=dict)
    user_classes: Texts = ()
    tensors_with_graph: Size = 0
    graph_depth: Size = 0
    graph_holders: Mapping[str, Size] = field(default_factory=dict)
    tensorflow: TensorflowFacts | None = None
    watched_paths: Mapping[str, Texts] = field(default_factory=dict)
    tracked_objects: Size = 0
    gc_enabled: bool = True
    gc_threshold: Change = 700
    gc_frozen_objects: Size = 0
    frame_holders: Mapping[str, Size] = field(default_factory=dict)
    record_classes: Texts = ()
    code_lines: Mapping[str, Texts] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    cost_seconds: Seconds = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesSnapshotEvent(Event):
    """A cheap snapshot: only what the program's names lead to; no object is counted."""

    kind: ClassVar[str] = "names-snapshot"
    pid: Pid
    generation: Generation | None = None
    phase: str = ""
    statement: Statement
    containers: tuple[ContainerContent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideSnapshotEvent(Event):
    """A statement from outside, of a process without an agent."""

    kind: ClassVar[str] = "outside-snapshot"
    pid: Pid
    statement: Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionGrowthEvent(Event):
    kind: ClassVar[str] = "function-growth"
    pid: Pid
    samples: Size = 0
    growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    children_growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    shm_growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    line_growth_bytes: Mapping[str, Change] = field(default_factory=dict)
    seconds: Mapping[str, Seconds] = field(default_factory=dict)
    loop: LoopPlace | None = None


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
    paths: Texts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureEvent(Event):
    kind: ClassVar[str] = "pressure"
    usage_bytes: Size
    limit_bytes: Size
    action: str = ""
    callbacks: Size = 0
    seconds_left: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteProcessEvent(Event):
    kind: ClassVar[str] = "remote-process"
    name: str
    node: str = ""
    pid: Pid = 0
    rss_bytes: Size | None = None
    pss_bytes: Size | None = None
    uss_bytes: Size | None = None
    limit: Limit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteEvent(Event):
    kind: ClassVar[str] = "note"
    text: str
    pid: Pid = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvent(Event):
    kind: ClassVar[str] = "plan"
    pid: Pid = 0
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseProbeEvent(Event):
    """What a garbage collection and a trim of malloc's heap gave back."""

    kind: ClassVar[str] = "release-probe"
    pid: Pid
    anon_bytes: Size = 0
    after_collect_bytes: Size
    collected_objects: Size = 0
    after_trim_bytes: Size
    is_live: bool = False  # while the program ran, not at its end
    generation: Generation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionEvent(Event):
    """A setting of an Optuna trial, the first time that it is suggested in a rehearsal."""

    kind: ClassVar[str] = "suggestion"
    pid: Pid
    name: str
    value: str = ""
    lowest: str = ""
    highest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyEvent(Event):
    """What a remedy has done in a process, or why it did not; without a text it was asked for."""

    kind: ClassVar[str] = "remedy"
    pid: Pid
    name: str
    text: str
    is_applied: bool = True
    saves_bytes: Size = 0  # as planned, once all of it is used


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEndEvent(Event):
    """The program's last line has run: what is seen later is its teardown.

    `since_training_seconds`: so long before, its training had ended.
    """

    kind: ClassVar[str] = "program-end"
    pid: Pid
    since_training_seconds: Seconds = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentPhaseEvent(Event):
    """What a process does at this moment; shown live, never written."""

    kind: ClassVar[str] = "current-phase"
    pid: Pid
    generation: Generation | None = None
    phase: str = ""
    has_bar: bool = False  # the program draws a progress bar


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomEvent(Event):
    """What is left until the limit that these processes share; shown live, never written."""

    kind: ClassVar[str] = "headroom"
    pids: tuple[Pid, ...]
    bytes: Size
    limit: Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEndEvent(Event):
    kind: ClassVar[str] = "run-end"
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
        IterationsEvent,
        AllocatorsEvent,
        SnapshotEvent,
        NamesSnapshotEvent,
        OutsideSnapshotEvent,
        FunctionGrowthEvent,
        SnapshotFailedEvent,
        ExpectationEvent,
        PressureEvent,
        RemoteProcessEvent,
        NoteEvent,
        PlanEvent,
        ReleaseProbeEvent,
        SuggestionEvent,
        RemedyEvent,
        ProgramEndEvent,
        CurrentPhaseEvent,
        HeadroomEvent,
        RunEndEvent,
    )
}
