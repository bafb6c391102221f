"""The answer of a plan: rows with their formulas, the peak, checks and recommendations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from ramledger.ledger import Account, printable
from ramledger.units import format_bytes

SCHEMA = "ramledger.plan/1"


class When(StrEnum):
    """The phase in which bytes are first allocated."""

    IMPORT = "import"
    START = "start"
    FILLED = "filled"
    UPDATE = "update"
    CHECKPOINT = "checkpoint"
    RESUME = "resume"


class Where(StrEnum):
    """Where bytes are."""

    MAIN = "main process"
    WORKERS = "workers"
    VRAM = "VRAM"
    DISK = "disk"


class Severity(StrEnum):
    """How much a check matters: it fails or misleads, it costs, or it is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Span:
    """Low, expected and high bytes."""

    low: int
    expected: int
    high: int

    @classmethod
    def exact(cls, size_bytes: int) -> "Span":
        return cls(size_bytes, size_bytes, size_bytes)

    @classmethod
    def around(cls, expected: float, low: float, high: float) -> "Span":
        """`expected` times the factors `low` and `high`."""
        return cls(round(expected * low), round(expected), round(expected * high))

    def __add__(self, other: "Span") -> "Span":
        return Span(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def to_dict(self) -> dict[str, int]:
        return {
            "low_bytes": self.low,
            "expected_bytes": self.expected,
            "high_bytes": self.high,
        }


NOTHING = Span.exact(0)


@dataclass(frozen=True, slots=True)
class Row(Account):
    """One account: how many bytes, why that many, from when on, and where.

    `span` is resident; `reserved_bytes` is what is allocated, where less of it is touched.
    A `transient` row is freed after its phase, such as the tensors of an update.
    """

    span: Span
    formula: str
    when: When
    where: Where = Where.MAIN
    reserved_bytes: int | None = None
    transient: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "account": self.account,
            "bytes": self.span.expected,
            "low_bytes": self.span.low,
            "high_bytes": self.span.high,
            "reserved_bytes": self.reserved_bytes,
            "formula": self.formula,
            "when": str(self.when),
            "where": str(self.where),
            "transient": self.transient,
        }


@dataclass(frozen=True, slots=True)
class Training:
    """The arithmetic of the loop."""

    steps_per_iteration: int | None = None
    batches_per_epoch: int | None = None
    updates_per_iteration: int | None = None
    iterations: int | None = None
    gradient_steps: int | None = None
    checkpoints: int | None = None
    steps_until_full: int | None = None
    seconds_until_full: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Check:
    """Something about the config that is wrong, costly or worth knowing."""

    id: str
    severity: Severity
    where: str
    message: str
    fix: str

    def to_dict(self) -> dict[str, str]:
        return {
            "id": self.id,
            "severity": str(self.severity),
            "where": self.where,
            "message": self.message,
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A change, and what it saves: the difference to the budget of the changed config."""

    priority: int
    change: str
    why: str
    saves_bytes: int
    costs: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    apply: str = ""  # the remedy of `run --apply` that does it, without a change to the script

    def to_dict(self) -> dict[str, Any]:
        return {
            "priority": self.priority,
            "change": self.change,
            "why": self.why,
            "saves_bytes": self.saves_bytes,
            "costs": self.costs,
            "set": msgspec.to_builtins(dict(self.set)),
            "apply": self.apply or None,
        }


@dataclass(frozen=True, slots=True)
class Room:
    """What is needed of one kind of memory at the peak, and its limit."""

    needed: Span
    limit_bytes: int | None
    source: str

    @property
    def fits(self) -> bool:
        return self.limit_bytes is None or self.needed.expected <= self.limit_bytes

    @property
    def headroom_bytes(self) -> int | None:
        return None if self.limit_bytes is None else self.limit_bytes - self.needed.expected

    def to_dict(self) -> dict[str, Any]:
        return {
            "needed_bytes": self.needed.expected,
            "low_bytes": self.needed.low,
            "high_bytes": self.needed.high,
            "limit_bytes": self.limit_bytes,
            "limit_source": self.source,
            "headroom_bytes": self.headroom_bytes,
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """What one training will need."""

    title: str
    config: Mapping[str, Any]
    rows: tuple[Row, ...]
    main: Span
    peak_phase: str
    ram: Room
    vram: Room
    training: Training
    checks: tuple[Check, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    unresolved: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    phases: Mapping[str, Span] = field(default_factory=dict)
    command: str = ""  # that trains, as a shell takes it
    refused: str = ""
    """A single reservation that the kernel would refuse, however little of it is touched."""

    @property
    def fits(self) -> bool:
        return self.ram.fits and self.vram.fits and not self.refused

    @property
    def verdict(self) -> str:
        """fits, tight (the high estimate does not fit) or does not fit."""
        if not self.fits:
            return "does not fit"
        rooms = (self.ram, self.vram)
        if any(r.limit_bytes is not None and r.needed.high > r.limit_bytes for r in rooms):
            return "tight"
        return "fits"

    def row(self, account: str) -> Row | None:
        """The row of that account."""
        return next((row for row in self.rows if row.account == account), None)

    def rows_in(self, where: Where) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.where is where)

    def __repr__(self) -> str:
        needed = format_bytes(self.ram.needed.expected)
        return f"<Budget {self.verdict}: {printable(self.title)}, {needed} of RAM>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from ramledger.report.html.displays import budget_html

        return budget_html(self)

    def to_dict(self) -> dict[str, Any]:
        """The document of `ramledger plan --json`."""
        return {
            "schema": SCHEMA,
            "title": self.title,
            "fits": self.fits,
            "verdict": self.verdict,
            "ram": self.ram.to_dict(),
            "vram": self.vram.to_dict(),
            "main_process": self.main.to_dict(),
            "peak_bytes": self.ram.needed.expected,
            "peak_phase": self.peak_phase,
            "phases": {name: span.to_dict() for name, span in self.phases.items()},
            "accounts": [row.to_dict() for row in self.rows],
            "training": self.training.to_dict(),
            "checks": [check.to_dict() for check in self.checks],
            "recommendations": [item.to_dict() for item in self.recommendations],
            "unresolved": list(self.unresolved),
            "assumed": list(self.assumed),
            "config": dict(self.config),
        }


@dataclass(frozen=True, slots=True)
class RowChange:
    """One account in both budgets."""

    account: str
    before_bytes: int
    after_bytes: int

    @property
    def delta_bytes(self) -> int:
        return self.after_bytes - self.before_bytes


def row_changes(before: Budget, after: Budget) -> tuple[RowChange, ...]:
    """Every account that differs, the largest change first."""
    sizes: list[dict[str, int]] = []
    for budget in (before, after):
        table: dict[str, int] = {}
        for row in budget.rows:
            name = f"{row.account} ({row.where})" if row.where != "main process" else row.account
            table[name] = table.get(name, 0) + row.span.expected
        sizes.append(table)
    old, new = sizes
    found = [
        RowChange(name, old.get(name, 0), new.get(name, 0)) for name in dict.fromkeys((*old, *new))
    ]
    return tuple(sorted((c for c in found if c.delta_bytes), key=lambda c: -abs(c.delta_bytes)))
