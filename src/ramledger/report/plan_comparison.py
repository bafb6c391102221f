"""The plan next to what was measured, row by row, and how good it was."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ramledger.errors import ConfigError
from ramledger.ledger import is_below
from ramledger.user_files import read_text

MAX_ROWS = 60
MAX_PLAN_BYTES = 16 << 20
_HINT = "give a file written by `ramledger plan --json`"


def read_plan(path: str) -> Mapping[str, Any]:
    """A `ramledger.plan/1` document."""
    try:
        found = json.loads(read_text(path, MAX_PLAN_BYTES, ConfigError, _HINT, "a plan"))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON document", hint=_HINT) from error
    if not isinstance(found, dict) or found.get("schema") != "ramledger.plan/1":
        raise ConfigError(f"{path} is not a plan", hint=_HINT)
    return found


def with_plan(page: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a page with the plan beside what its looks and samples measured."""
    try:
        rows = [_row(page, row) for row in plan["accounts"][:MAX_ROWS]]
        peak = _whole(plan["peak_bytes"])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"the plan is incomplete: {error!r}", hint=_HINT) from error
    return {**page, "plan": {"rows": rows, "peak_bytes": peak, "grade": _grade(page, peak)}}


def _grade(page: Mapping[str, Any], planned: int) -> str:
    measured = page["peak"]["bytes"]
    if not planned or not measured:
        return "there is no peak to compare"
    error = measured / planned - 1
    if abs(error) < 0.005:
        return "the peak was as planned"
    return f"the peak was {abs(error):.0%} {'above' if error > 0 else 'below'} the plan"


def _row(page: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    account = str(row["account"])
    return {
        "account": account,
        "planned": _whole(row["bytes"]),
        "measured": _most(page["looks"], page["names"], account, page["main_pid"]),
        "formula": str(row.get("formula") or ""),
    }


def _most(
    looks: Sequence[Mapping[str, Any]], names: Sequence[str], account: str, pid: int | None
) -> int | None:
    """The most that an account and all below it held; None if it was never seen."""
    sums = [
        sum(sizes)
        for look in looks
        if look["pid"] == pid
        and (sizes := [row[1] for row in look["accounts"] if is_below(names[row[0]], account)])
    ]
    return max(sums, default=None)


def _whole(number: Any) -> int:
    """A whole number of a plan; what no count of bytes can be is a ValueError."""
    found = int(number)
    if abs(found) >= 1 << 63:
        raise ValueError("not a number of bytes")
    return found
