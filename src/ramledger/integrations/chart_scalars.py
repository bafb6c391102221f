"""What charts show of a statement: one number a group of accounts, at a bounded cost."""

import time
from collections.abc import Mapping
from typing import Any

from ramledger.errors import ConfigError
from ramledger.ledger import Statement
from ramledger.process_session import ProcessSession
from ramledger.time_share import Governor
from ramledger.units import MIB

# the first part of an account's name
_GROUPS = (
    *("replay", "rollout", "networks", "gradients", "optimizer", "env", "variables", "arrays"),
    *("imports", "libraries", "python", "native", "allocator", "tensorflow"),
)
NAMES = ("rss", *_GROUPS, "other", "unexplained")
_OWNERS = ("replay", "rollout", "networks", "optimizer", "env")
_SEEN = 0.5  # of an owner's bytes: they may well shrink from one statement to the next
_SHARE = 0.005  # of the CPU time, for full statements
_REST = 400  # a statement, then so many times as long without one


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
    """The last statement's scalars, `memory/…` in MiB; a new one at most every so often.

    A full statement waits until it is a small share of the training. Meanwhile statements show what
    the user's names and the roots lead to, unless the last full one has found more.
    """

    def __init__(self, every_seconds: float) -> None:
        if not isinstance(every_seconds, int | float) or not every_seconds >= 0:
            raise ConfigError(f"every_seconds is {every_seconds!r}", hint="such as 10")
        self.every_seconds = every_seconds
        self.next_at = 0.0  # of time.monotonic: before it, `read` answers the same again
        self._at = 0.0
        self._taken_at = float("-inf")
        self._latest: dict[str, float] = {}
        self._full_at = 0.0
        self._owners: dict[str, int] = {}  # in the last full statement
        self._is_blind = False  # what names lead to is not all of them
        self._full_statements = Governor(_SHARE, time.process_time, credit=0.0)
        self._session = ProcessSession()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.every_seconds,)  # another process has other clocks

    def read(self, **roots: Any) -> dict[str, float]:
        """Of this process; the same dict while nothing is new. `roots`: objects by name."""
        if time.monotonic() >= self.next_at:
            began = time.thread_time()
            statement = self._statement(roots)
            rest = (time.thread_time() - began) * _REST
            self._take(statement)
            self.next_at = time.monotonic() + max(self.every_seconds, rest)
        elif time.monotonic() - self._taken_at >= self.every_seconds:
            self._take(self._session.latest_statement)  # at no cost
        return self._latest

    def _take(self, statement: Statement | None) -> None:
        if statement is not None and statement.at > self._at:
            found = scalars(statement)
            self._latest = {f"memory/{name}": round(n / MIB, 2) for name, n in found.items()}
            self._at, self._taken_at = statement.at, time.monotonic()

    def _statement(self, roots: Mapping[str, Any]) -> Statement | None:
        """The newest; None where the last one has to do. Snapshots of a recording serve here."""
        session = self._session
        full = session.recent_statement(self.every_seconds) if session.is_recorded else self._full()
        if full is not None and full.at != self._full_at:
            self._full_at, self._owners = full.at, _owners(full)
            return full
        if self._is_blind:
            return None
        if session.is_recorded and full is None:
            return session.record_statement_by_names(roots)
        found = session.statement_by_names(roots)
        # what only a library holds is in a full statement alone: nothing less is shown after it
        seen = _owners(found)
        large = {name: size for name, size in self._owners.items() if size >= MIB}
        self._is_blind = any(seen[name] < _SEEN * size for name, size in large.items())
        return None if self._is_blind else found

    def _full(self) -> Statement | None:
        began, spent = time.thread_time(), self._full_statements.spent_seconds
        expected = None if spent else self._session.expected_cost_seconds
        if not self._full_statements.allows(expected):
            return None
        statement = self._session.statement()
        self._full_statements.spend(time.thread_time() - began)
        return statement


def _owners(statement: Statement) -> dict[str, int]:
    found = scalars(statement)
    return {name: found[name] for name in _OWNERS}
