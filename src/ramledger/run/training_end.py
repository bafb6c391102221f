"""Which events are of the end: the one place that decides it, for all views.

What comes after the training, at exit and during teardown is in no series, peak or growth.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ramledger.events import (
    AllocatorsEvent,
    Event,
    ExpectationEvent,
    GenerationEvent,
    NamesSnapshotEvent,
    ProgramEndEvent,
    SnapshotEvent,
)

END = "end"  # phase or label of what an agent sees after the training
_ROUNDING_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class TrainingEnd:
    """When the training of one process ended, and its program; never, unless somebody said so."""

    training_at: float = float("inf")
    program_at: float = float("inf")

    @classmethod
    def of(cls, events: Iterable[ProgramEndEvent]) -> "TrainingEnd":
        """By the first end that is told."""
        first = min(events, key=lambda event: event.t, default=None)
        if first is None:
            return cls()
        return cls(first.t - first.since_training_seconds, first.t)

    def has(self, event: Event) -> bool:
        """Whether an event of that process is of the end."""
        if isinstance(event, SnapshotEvent | NamesSnapshotEvent | ExpectationEvent):
            return is_marked(event) or self._is_late(event)
        if isinstance(event, GenerationEvent):  # a final one is measured at exit
            return event.is_final or event.t > self.training_at + _ROUNDING_SECONDS
        if isinstance(event, AllocatorsEvent):
            return event.t >= self.program_at
        return event.t > self.training_at + _ROUNDING_SECONDS

    def _is_late(self, event: SnapshotEvent | NamesSnapshotEvent | ExpectationEvent) -> bool:
        """A snapshot that was begun before still saw the program's variables."""
        if event.t > self.program_at and not event.phase:
            return True
        cost_seconds = event.cost_seconds if isinstance(event, SnapshotEvent) else 0.0
        is_after = event.t - cost_seconds > self.training_at + _ROUNDING_SECONDS
        return is_after and self.training_at < self.program_at


def is_marked(event: SnapshotEvent | NamesSnapshotEvent | ExpectationEvent) -> bool:
    """Whether the agent knew that the training was over."""
    label = event.label if isinstance(event, SnapshotEvent) else ""
    return END in (event.phase, label)
