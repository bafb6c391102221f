"""What charts show of a statement: one number a group of accounts, at a bounded cost."""

import time
from typing import Any

from ramledger.ledger import Statement
from ramledger.units import MIB

# the first part of an account's name
_GROUPS = (
    *("replay", "rollout", "networks", "gradients", "optimizer", "env", "variables", "arrays"),
    *("imports", "libraries", "python", "native", "allocator", "tensorflow"),
)
_REST = 200  # a statement, then so many times as long without one


def scalars(statement: Statement) -> dict[str, int]:
    """In bytes; the groups, `other` and `unexplained` sum to `rss`."""
    found = dict.fromkeys(_GROUPS, 0)
    other = 0
    for entry in statement.entries:
        group = entry.account.partition("/")[0]
        if group in found:
            found[group] += entry.resident_bytes
        else:
            other += entry.resident_bytes
    return {
        "rss": statement.rss_bytes,
        **found,
        "other": other,
        "unexplained": statement.unexplained_bytes,
    }


class ScalarSource:
    """The last statement's scalars, `memory/…` in MiB; a new one at most every so often."""

    def __init__(self, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._next = 0.0
        self._latest: dict[str, float] = {}

    def read(self, ledger: Any) -> dict[str, float]:
        """Of a ledger as `ramledger.record()` gives it."""
        began = time.monotonic()
        if began >= self._next:
            found = scalars(ledger.snapshot(objects=False))
            self._latest = {f"memory/{name}": round(n / MIB, 2) for name, n in found.items()}
            now = time.monotonic()
            self._next = now + max(self.every_seconds, (now - began) * _REST)
        return self._latest
