"""A run grades its plan: planned and measured bytes side by side, family by family."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ramledger.event_parts import Plan
from ramledger.run.model import Run
from ramledger.run.snapshots import ProcessSnapshots

# a plan says what is imported, a statement where those pages are
_RUNTIME = ("imports", "libraries", "python", "files", "interpreter", "code", "threads")
_FAMILIES = dict.fromkeys(_RUNTIME, "imports and libraries")
_COMPARED = ("imports and libraries", "replay", "rollout", "networks", "optimizer")
_CLOSE = 0.05
_LEAST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Graded:
    """One family of accounts: what was planned, what was there."""

    account: str
    planned_bytes: int
    low_bytes: int
    high_bytes: int
    measured_bytes: int

    @property
    def error(self) -> float:
        """Of the plan, relative to what was measured."""
        return self.planned_bytes / self.measured_bytes - 1 if self.measured_bytes else 0.0

    @property
    def error_text(self) -> str:
        return f"{self.error:+.1%}" if self.measured_bytes else ""

    @property
    def verdict(self) -> str:
        """close, in range, too low or too high."""
        if abs(self.planned_bytes - self.measured_bytes) <= max(
            _CLOSE * self.measured_bytes, _LEAST_BYTES
        ):
            return "close"
        if self.low_bytes <= self.measured_bytes <= self.high_bytes:
            return "in range"
        return "too low" if self.planned_bytes < self.measured_bytes else "too high"

    def to_dict(self) -> dict[str, Any]:
        return {
            "account": self.account,
            "planned_bytes": self.planned_bytes,
            "low_bytes": self.low_bytes,
            "high_bytes": self.high_bytes,
            "measured_bytes": self.measured_bytes,
            "verdict": self.verdict,
        }


def graded(run: Run) -> tuple[Graded, ...]:
    """Every family that both sides know, then the peak; nothing without a plan."""
    return () if run.plan is None else tuple(_rows(run, run.plan))


def _rows(run: Run, plan: Plan) -> Iterator[Graded]:
    snapshots = run.main_snapshots
    if snapshots is not None:
        measured = _measured(snapshots)
        planned = _planned(plan)
        for name in _COMPARED:
            if name in planned and name in measured:
                yield Graded(name, *planned[name], measured[name])
    if run.peak_bytes:
        ram = plan.ram
        sizes = ram.needed_bytes, ram.low_bytes, ram.high_bytes
        yield Graded("peak of all processes", *sizes, run.peak_bytes)


def _measured(snapshots: ProcessSnapshots) -> dict[str, int]:
    """The most that each family held in the snapshots that were kept."""
    most: dict[str, int] = {}
    for snapshot in filter(None, (snapshots.peak, snapshots.now)):
        sums: dict[str, int] = {}
        for entry in snapshot.statement.entries:
            name = _family(entry.account)
            sums[name] = sums.get(name, 0) + entry.resident_bytes
        most = {name: max(most.get(name, 0), sums.get(name, 0)) for name in {*most, *sums}}
    return most


def _planned(plan: Plan) -> dict[str, tuple[int, int, int]]:
    sums: dict[str, tuple[int, int, int]] = {}
    for row in plan.accounts:
        if row.where != "main process" or row.transient:
            continue
        name = _family(row.account)
        old = sums.get(name, (0, 0, 0))
        sums[name] = old[0] + row.bytes, old[1] + row.low_bytes, old[2] + row.high_bytes
    return sums


def _family(account: str) -> str:
    first = account.partition("/")[0]
    return _FAMILIES.get(first, first)
