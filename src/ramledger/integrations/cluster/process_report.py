"""What one process of a cluster reports of itself and of its node: plain data that travels."""

from dataclasses import dataclass

from ramledger.event_parts import ProcessMemory
from ramledger.events import SnapshotEvent


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """The memory of a node, and where Ray's memory monitor begins to kill workers."""

    limit_bytes: int | None = None
    limit_source: str = ""
    kill_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """One process now; `is_last`: when the run ends, after its last iteration."""

    pid: int
    node: str
    name: str
    role: str
    memory: ProcessMemory
    limits: NodeLimits
    node_used_bytes: int
    snapshot: SnapshotEvent | None = None
    is_last: bool = False
