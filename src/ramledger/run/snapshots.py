"""The snapshots of a run that views ask for, and each owner's bytes over time, by process."""

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ramledger.events import SnapshotEvent
from ramledger.ledger import Statement
from ramledger.run.series import Series
from ramledger.run.training_end import is_marked

UNEXPLAINED = "unexplained"
MAX_PROCESSES = 16
MAX_ACCOUNTS = 80
RECENT = 6


@dataclass(slots=True)
class ProcessSnapshots:
    """The snapshots of one process that matter: the baseline, the latest, the largest.

    One of the end is only the latest, and only where there is no better one.
    """

    baseline: SnapshotEvent
    latest: SnapshotEvent | None = None
    peak: SnapshotEvent | None = None
    accounts: dict[str, Series] = field(default_factory=dict)
    first_counts: dict[str, int] = field(default_factory=dict)  # by type, where first listed
    recent: deque[SnapshotEvent] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def now(self) -> SnapshotEvent:
        return self.latest or self.baseline

    def add(self, snapshot: SnapshotEvent) -> None:
        """Add every snapshot, the first one too."""
        if is_marked(snapshot):  # the program's functions, and what they held, are gone by then
            if _is_start(self.now):
                self.latest = snapshot
            return
        if _is_better_baseline(snapshot, self.baseline):
            self.baseline = snapshot
            self.first_counts = {}
        self.latest = snapshot
        self.recent.append(snapshot)
        if self.peak is None or snapshot.statement.rss_bytes > self.peak.statement.rss_bytes:
            self.peak = snapshot
        self._add_to_series(snapshot)
        self._note_first_counts(snapshot)

    @property
    def count_changes(self) -> list[tuple[str, int, int]]:
        """(type, instances before, after) of the types that the latest snapshot lists.

        A snapshot lists all classes of the user, of the others those that grow or are many. So
        one of the others may have been there before it was listed: its growth begins there.
        """
        after = self.now.live_objects
        return [(name, self.first_counts.get(name, n), n) for name, n in after.items()]

    def begin_anew(self) -> None:
        """What was counted so far is start-up: the next snapshot is a better baseline."""
        self.baseline = replace(self.baseline, generation=None)

    def _note_first_counts(self, snapshot: SnapshotEvent) -> None:
        users = set(snapshot.user_classes) - set(self.baseline.live_objects)
        for name, count in snapshot.live_objects.items():
            self.first_counts.setdefault(name, 0 if name in users else count)

    def _add_to_series(self, snapshot: SnapshotEvent) -> None:
        """An account that is gone reads zero from now on."""
        accounts, totals = self.accounts, account_totals(snapshot.statement)
        for account in {*accounts, *totals}:
            if account not in accounts:
                accounts[account] = Series(whole=80, recent=40)
            accounts[account].add(snapshot.t, totals.get(account, 0))
        for account in sorted(accounts, key=lambda name: -accounts[name].last)[MAX_ACCOUNTS:]:
            del accounts[account]


class Snapshots:
    """By process; of very many processes, the largest are kept."""

    def __init__(self) -> None:
        self.by_pid: dict[int, ProcessSnapshots] = {}

    def largest_pid(self, but: Collection[int] = ()) -> int | None:
        return max((pid for pid in self.by_pid if pid not in but), key=self._size, default=None)

    def add(self, snapshot: SnapshotEvent) -> None:
        if snapshot.pid not in self.by_pid:
            if len(self.by_pid) >= MAX_PROCESSES:
                del self.by_pid[min(self.by_pid, key=self._size)]
            self.by_pid[snapshot.pid] = ProcessSnapshots(snapshot)
        self.by_pid[snapshot.pid].add(snapshot)

    def _size(self, pid: int) -> int:
        return self.by_pid[pid].now.statement.rss_bytes


def _is_start(snapshot: SnapshotEvent) -> bool:
    """Taken before the first iteration was over: imports and first allocations are not growth."""
    return snapshot.generation is None and not snapshot.label


def _is_better_baseline(snapshot: SnapshotEvent, baseline: SnapshotEvent) -> bool:
    return snapshot.label == "baseline" or (_is_start(baseline) and not _is_start(snapshot))


def account_totals(statement: Statement) -> dict[str, int]:
    """Resident bytes by account, `unexplained` among them."""
    totals: Counter[str] = Counter()
    for entry in statement.entries:
        totals[entry.account] += entry.resident_bytes
    return {**totals, UNEXPLAINED: statement.unexplained_bytes}
