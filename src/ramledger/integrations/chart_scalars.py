"""What charts show of a statement: one number a group of accounts, at a bounded cost."""

import time
from collections.abc import Mapping
from typing import Any

from ramledger.agent import observer
from ramledger.agent.snapshot_schedule import first_snapshot_seconds
from ramledger.errors import ConfigError
from ramledger.ledger import Statement
from ramledger.statement.own import own_statement, quick_statement
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
_SHARE = 0.005  # of the CPU time, for statements with a census of objects
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

    A census of all objects waits until it is a small share of the training. Meanwhile statements
    tell what the user's names and the roots lead to, unless the last census has found more.
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
        self._owners: dict[str, int] = {}  # in the last statement with a census
        self._is_blind = False  # what names lead to is not all of them
        self._censuses = Governor(_SHARE, time.process_time, credit=0.0)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.every_seconds,)  # another process has other clocks

    def read(self, **roots: Any) -> dict[str, float]:
        """Of this process; the same dict while nothing is new. `roots`: what to look at by name."""
        if time.monotonic() >= self.next_at:
            began = time.thread_time()
            statement = self._statement(roots)
            rest = (time.thread_time() - began) * _REST
            self._take(statement)
            self.next_at = time.monotonic() + max(self.every_seconds, rest)
        elif time.monotonic() - self._taken_at >= self.every_seconds:
            watched = observer.OBSERVER
            self._take(watched.snapshots.latest if watched is not None else None)  # at no cost
        return self._latest

    def _take(self, statement: Statement | None) -> None:
        if statement is not None and statement.at > self._at:
            found = scalars(statement)
            self._latest = {f"memory/{name}": round(n / MIB, 2) for name, n in found.items()}
            self._at, self._taken_at = statement.at, time.monotonic()

    def _statement(self, roots: Mapping[str, Any]) -> Statement | None:
        """The newest; None where the last one has to do. Looks of a recording serve here."""
        watched = observer.OBSERVER
        full = self._census() if watched is None else watched.recent_statement(self.every_seconds)
        if full is not None and full.at != self._full_at:
            self._full_at, self._owners = full.at, _owners(full)
            return full
        if self._is_blind:
            return None
        if watched is not None and full is None:
            return watched.statement_by_names(roots.items())  # told to the recording, too
        found, _ = quick_statement(*roots.items())
        # what only a library holds is found by a census alone: nothing less is shown after it
        seen = _owners(found)
        large = {name: size for name, size in self._owners.items() if size >= MIB}
        self._is_blind = any(seen[name] < _SEEN * size for name, size in large.items())
        return None if self._is_blind else found

    def _census(self) -> Statement | None:
        began, spent = time.thread_time(), self._censuses.spent_seconds
        if not self._censuses.allows(None if spent else first_snapshot_seconds()):
            return None
        statement = own_statement(objects=False)
        self._censuses.spend(time.thread_time() - began)
        return statement


def _owners(statement: Statement) -> dict[str, int]:
    found = scalars(statement)
    return {name: found[name] for name in _OWNERS}
