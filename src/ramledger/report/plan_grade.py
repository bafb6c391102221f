"""A run grades its plan: planned and measured bytes side by side, family by family."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ramledger.run.iterations import whole
from ramledger.run.state import Looks, RunState

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


def graded(state: RunState) -> tuple[Graded, ...]:
    """Every family that both sides know, then the peak; nothing without a plan."""
    if state.plan is None:
        return ()
    try:
        return tuple(_rows(state, state.plan))
    except (AttributeError, LookupError, TypeError, ValueError):
        return ()


def _rows(state: RunState, plan: Mapping[str, Any]) -> Iterator[Graded]:
    looks = state.main_looks
    if looks is not None:
        measured = _measured(looks)
        planned = _planned(plan)
        for name in _COMPARED:
            if name in planned and name in measured:
                yield Graded(name, *planned[name], measured[name])
    if state.peak_bytes:
        ram = plan["ram"]
        needed, low, high = (whole(ram[key]) for key in ("needed_bytes", "low_bytes", "high_bytes"))
        yield Graded("peak of all processes", needed, low, high, state.peak_bytes)


def _measured(looks: Looks) -> dict[str, int]:
    """The most that each family held in the looks that were kept."""
    most: dict[str, int] = {}
    for look in filter(None, (looks.peak, looks.now)):
        sums: dict[str, int] = {}
        for entry in look.statement.entries:
            name = _family(entry.account)
            sums[name] = sums.get(name, 0) + entry.resident_bytes
        most = {name: max(most.get(name, 0), sums.get(name, 0)) for name in {*most, *sums}}
    return most


def _planned(plan: Mapping[str, Any]) -> dict[str, tuple[int, int, int]]:
    sums: dict[str, tuple[int, int, int]] = {}
    for row in plan["accounts"]:
        if row["where"] != "main process" or row["transient"]:
            continue
        name = _family(str(row["account"]))
        old = sums.get(name, (0, 0, 0))
        sizes = [whole(row[key]) for key in ("bytes", "low_bytes", "high_bytes")]
        sums[name] = (old[0] + sizes[0], old[1] + sizes[1], old[2] + sizes[2])
    return sums


def _family(account: str) -> str:
    first = account.partition("/")[0]
    return _FAMILIES.get(first, first)
