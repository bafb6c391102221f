"""What a reader returns: the config, where each value is written, and what is unresolved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ramledger.plan.budget import Check
from ramledger.plan.plan_config import Config


def rehearsal_of(path: str) -> str:
    """The command that runs a little of a script, and forecasts the rest."""
    return f"ramledger plan --rehearse 60s -- python {path}"


@dataclass(frozen=True, slots=True)
class SearchRange:
    """A hyperparameter that a search varies: its largest value and where that is written."""

    field: str
    low: Any
    high: Any
    where: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """One source, read; nothing in it was executed."""

    config: Config
    places: Mapping[str, str] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    ranges: tuple[SearchRange, ...] = ()
    resolved: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    """What the reader took for granted, with its line."""
    source: str = ""
    """The file that was read."""
