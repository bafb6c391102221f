"""What `ramledger run` asks of the agents in its processes; imports next to nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ramledger.time_share import CREDIT_SECONDS


@dataclass(frozen=True, slots=True)
class ObserverSettings:
    """Settings of one process's observer; `ramledger run` sets those that `from_dict` reads."""

    recorder: str
    phases: tuple[str, ...] = ()
    expectations: Mapping[str, int] = field(default_factory=dict)
    budget: float = 0.01
    credit: float = CREDIT_SECONDS  # beside the budget, while memory does not grow
    stack_share: float = 1.0  # of the usual cost of sampling the call stack
    last_snapshot: bool = True  # at exit, with a count of all objects
    probe: bool = False  # collect and trim now and then, and measure what that gives back
    rescue_folder: str = ""  # where models are saved under memory pressure
    is_rehearsal: bool = False  # a search leaves nothing in its storage
    corner: str = ""  # of a search: all suggestions "low" or "high"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ObserverSettings":
        return cls(
            recorder=str(data.get("recorder", "")),
            phases=tuple(map(str, data.get("phases", ()))),
            expectations={str(k): int(v) for k, v in dict(data.get("expectations", {})).items()},
            budget=float(data.get("budget", 0.01)),
            probe=data.get("probe") is True,
            rescue_folder=str(data.get("rescue_folder", "")),
            is_rehearsal=data.get("is_rehearsal") is True,
            corner=str(data.get("corner", "")),
        )
