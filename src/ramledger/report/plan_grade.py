"""A plan beside what was measured: by families of accounts after a run, row by row on a page."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ramledger.diagnose.own_replay import with_replay_rows
from ramledger.errors import ConfigError
from ramledger.event_parts import Plan
from ramledger.ledger import Account, is_below
from ramledger.run.model import Run
from ramledger.user_files import read_text

MAX_ROWS = 60
MAX_PLAN_BYTES = 16 << 20
_HINT = "give a file written by `ramledger plan --json`"
# a plan says what is imported, a statement where those pages are
_RUNTIME = ("imports", "libraries", "python", "files", "interpreter", "code", "threads")
_JOINED = dict.fromkeys(_RUNTIME, "imports and libraries")
_COMPARED = ("imports and libraries", "replay", "rollout", "networks", "optimizer", "variables")
_CLOSE = 0.05
_LEAST_BYTES = 1 << 20
_AS_PLANNED = 0.005


@dataclass(frozen=True, slots=True)
class Graded(Account):
    """An account, or a family of them: what was planned, and the most that was measured."""

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


# ---- after a run: families, since a statement names more than a plan ----------------------------


def graded(run: Run) -> tuple[Graded, ...]:
    """Every family that both sides know, then the peak; nothing without a plan."""
    return () if run.plan is None else tuple(_families(run, run.plan))


def _families(run: Run, plan: Plan) -> Iterator[Graded]:
    snapshots = run.main_snapshots
    if snapshots is not None:
        kept = (snapshots.now, *([snapshots.peak] if snapshots.peak else []))
        statements = [with_replay_rows(one.statement) for one in kept]
        measured = [_sums((e, e.resident_bytes) for e in s.entries) for s in statements]
        staying = [a for a in plan.accounts if a.where == "main process" and not a.transient]
        expected = _sums((row, row.bytes) for row in staying)
        low = _sums((row, row.low_bytes) for row in staying)
        high = _sums((row, row.high_bytes) for row in staying)
        for name in _COMPARED:
            most = [sums[name] for sums in measured if name in sums]
            if name in expected and most:
                yield Graded(name, expected[name], low[name], high[name], max(most))
    if run.peak_bytes:
        ram = plan.ram
        sizes = ram.needed_bytes, ram.low_bytes, ram.high_bytes
        yield Graded("peak of all processes", *sizes, run.peak_bytes)


def _sums(sizes: Iterable[tuple[Account, int]]) -> dict[str, int]:
    """Bytes by family."""
    found: dict[str, int] = {}
    for account, size in sizes:
        name = _JOINED.get(account.family, account.family)
        found[name] = found.get(name, 0) + size
    return found


# ---- on a page: every row of a document, beside the most that its account held ------------------


def read_plan(path: str) -> Mapping[str, Any]:
    """A `ramledger.plan/1` document."""
    try:
        found = json.loads(read_text(path, MAX_PLAN_BYTES, ConfigError, _HINT, "a plan"))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the plan {path} is not a JSON document", hint=_HINT) from error
    if not isinstance(found, dict) or found.get("schema") != "ramledger.plan/1":
        raise ConfigError(f"{path} is not a plan", hint=_HINT)
    return found


def with_plan(page: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a page with the plan beside what its snapshots and samples measured."""
    try:
        rows = [_row(page, row) for row in plan["accounts"][:MAX_ROWS]]
        peak = _whole(plan["peak_bytes"])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"the plan is incomplete: {error!r}", hint=_HINT) from error
    grade = _peak_sentence(peak, page["peak"]["bytes"])
    return {**page, "plan": {"rows": rows, "peak_bytes": peak, "grade": grade}}


def _peak_sentence(planned: int, measured: int) -> str:
    if not planned or not measured:
        return "there is no peak to compare"
    error = measured / planned - 1
    if abs(error) < _AS_PLANNED:
        return "the peak was as planned"
    return f"the peak was {abs(error):.0%} {'above' if error > 0 else 'below'} the plan"


def _row(page: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    account = str(row["account"])
    return {
        "account": account,
        "planned": _whole(row["bytes"]),
        "measured": _most(page, account),
        "formula": str(row.get("formula") or ""),
    }


def _most(page: Mapping[str, Any], account: str) -> int | None:
    """The most that an account and all below it held; None if it was never measured."""
    names = page["names"]
    sums = [
        sum(sizes)
        for snapshot in page["snapshots"]
        if snapshot["pid"] == page["main_pid"]
        and (sizes := [row[1] for row in snapshot["accounts"] if is_below(names[row[0]], account)])
    ]
    return max(sums, default=None)


def _whole(number: Any) -> int:
    """A whole number of a plan; a ValueError for one that cannot be a number of bytes."""
    found = int(number)
    if abs(found) >= 1 << 63:
        raise ValueError("not a number of bytes")
    return found
