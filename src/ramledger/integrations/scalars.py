"""What charts show of a statement: one number a group of accounts, at a bounded cost."""

import time
from typing import Any

from ramledger.account import watching
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
        self.next_at = 0.0  # of time.monotonic: before it, `read` answers the same again
        self._at = 0.0
        self._latest: dict[str, float] = {}

    def read(self, ledger: Any) -> dict[str, float]:
        """Of a ledger as `ramledger.record()` gives it; the same dict while nothing is new."""
        if time.monotonic() >= self.next_at:
            statement, rest = _statement(ledger, self.every_seconds)
            if statement.at != self._at:
                found = scalars(statement)
                self._latest = {f"memory/{name}": round(n / MIB, 2) for name, n in found.items()}
                self._at = statement.at
            self.next_at = time.monotonic() + max(self.every_seconds, rest)
        return self._latest


def _statement(ledger: Any, oldest_seconds: float) -> tuple[Statement, float]:
    """And the rest to take after it. Where a recording takes looks already, they serve here."""
    watched = watching.WATCHING
    found = watched.recent_statement(oldest_seconds) if watched is not None else None
    if found is not None:
        return found, 0.0
    began = time.thread_time()
    taken: Statement = ledger.snapshot(objects=False)
    return taken, (time.thread_time() - began) * _REST
