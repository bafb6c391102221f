"""A run judged while it goes on, by the same table as afterwards, for a bounded share of the time.

Its own memory and what other programs on the machine do are two questions.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ramledger.diagnose import thresholds
from ramledger.diagnose.capacities import capacity_of
from ramledger.diagnose.finding import Diagnosis, Finding
from ramledger.diagnose.growth_table import held
from ramledger.diagnose.verdict import diagnose
from ramledger.events import SnapshotEvent
from ramledger.run.model import Run
from ramledger.run.one_snapshot import Snapshot
from ramledger.run.time_left import Filling, TimeLeft, is_rising, time_left
from ramledger.time_share import Governor

SHARE = 0.01  # of the time of one core
LEAST_SECONDS = 3.0  # between two judgements
_CREDIT_SECONDS = 0.25  # so that a short run is judged, too: each of both
# How much longer than until it was first seen a leak must last, with the same owner. Of 31 healthy
# recordings of the corpus, followed live, 7 were called a leak at first, 4 with 1.25 and 2 with 1.5
# or 2. Of 120 recordings in all, 1.5 finds 65 of 68 leaks, and warns of 6 of 52 healthy ones: their
# programs grow in a line for a third of the run and state no capacity.
_CERTAIN = 1.5
_FIRST_ITERATIONS = 30  # show what comes back: a leak seen in these is held against all of them
_FIRST_SECONDS = 600.0  # the same without iterations
_SURE_RATE = 0.5  # of the rate: a wider doubt on either side is no certainty
_START = TimeLeft(None, None, None, "starting")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of a run at a moment."""

    diagnosis: Diagnosis | None = None
    run_left: TimeLeft | None = None  # until its own growth reaches the limit
    machine_left: TimeLeft | None = None  # where other programs fill it sooner
    leak: Finding | None = None  # the fastest one, once it is certain

    @property
    def growing(self) -> Finding | None:
        """The fastest leak, certain or not."""
        leaks = self.diagnosis.leaks if self.diagnosis is not None else ()
        return leaks[0] if leaks else None


class LiveJudge:
    """Judges a run that keeps its events, whenever it is asked and the share of time allows."""

    def __init__(
        self, run: Run, *, share: float = SHARE, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self.trouble = ""  # why it judges no more
        self._run = run
        self._clock = clock
        self._judged = Judgement()
        self._left = _Turn(run, share / 2)
        self._verdict = _Turn(run, share / 2)
        self._seen: _Seen | None = None

    @property
    def now(self) -> Judgement:
        """As last judged, less the time since."""
        found, passed = self._judged, self._run.now_seconds - self._left.at
        return replace(
            found,
            run_left=found.run_left and found.run_left.later(passed),
            machine_left=found.machine_left and found.machine_left.later(passed),
        )

    def refresh(self) -> Judgement:
        """Judge again what is due; whatever goes wrong with it, the run and its view go on."""
        try:
            for turn, judge in ((self._left, self._judge_left), (self._verdict, self._judge_leaks)):
                if not self.trouble and turn.is_due:
                    began = self._clock()
                    judge()
                    turn.took(self._clock() - began)
        except Exception as error:
            self.trouble = f"not judged while it runs: {error!r}"
            self._run.notes.append(self.trouble)
        return self.now

    def _judge_left(self) -> None:
        own, machine = time_left_of(self._run)
        self._judged = replace(self._judged, run_left=own, machine_left=machine)

    def _judge_leaks(self) -> None:
        diagnosis = diagnose(self._run)
        growing = diagnosis.leaks[0] if diagnosis.leaks else None
        if growing is None or (self._seen is not None and self._seen.owner != owner_of(growing)):
            self._seen = None
        if growing is not None and self._seen is None:
            lasted = _lasted(self._run, growing.onset_generation)
            self._seen = _Seen(owner_of(growing), self._run.now_seconds, lasted)
        is_certain = growing is not None and self._seen is not None and self._is_certain(growing)
        leak = growing if is_certain else None
        self._judged = replace(self._judged, diagnosis=diagnosis, leak=leak)

    def _is_certain(self, leak: Finding) -> bool:
        low, high = leak.interval_bytes
        doubt = max(leak.bytes_per_generation - low, high - leak.bytes_per_generation)
        is_sure = doubt <= _SURE_RATE * leak.bytes_per_generation
        return is_sure and self._seen is not None and self._seen.has_lasted(self._run.now_seconds)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A leak when it was first seen: its owner, and how long it had lasted by then."""

    owner: str
    at: float
    lasted: float

    def has_lasted(self, now: float) -> bool:
        return now - self.at >= (_CERTAIN - 1) * self.lasted


def _lasted(run: Run, onset: int | None) -> float:
    """Seconds since a leak began, or that the first iterations took, whatever is longer."""
    now, rows = run.now_seconds, run.iterations.of(run.main_pid)
    if not rows:
        return min(now, _FIRST_SECONDS)
    began = next((row.t for row in rows if onset is None or row.generation >= onset), rows[0].t)
    first = next((row.t for row in rows if row.index >= _FIRST_ITERATIONS), now)
    return max(now - began, first - rows[0].t)


class _Turn:
    """When something is due again: not at once, and within its share of the run's time."""

    def __init__(self, run: Run, share: float) -> None:
        self.at = float("-inf")
        self._run = run
        self._governor = Governor(share, lambda: run.now_seconds, _CREDIT_SECONDS)

    @property
    def is_due(self) -> bool:
        return self._run.now_seconds - self.at >= LEAST_SECONDS and self._governor.allows()

    def took(self, seconds: float) -> None:
        self.at = self._run.now_seconds
        self._governor.spend(seconds)


def owner_of(finding: Finding) -> str:
    """The name that holds what grows, else what it is."""
    return finding.culprit.path or finding.culprit.type


def time_left_of(run: Run) -> tuple[TimeLeft | None, TimeLeft | None]:
    """Until the limit as this run grows; and as the machine fills, where others fill it sooner."""
    if run.limit is None or not run.limit.bytes or not len(run.own):
        return None, None
    iterations = run.iterations.of(run.main_pid)
    is_early = not iterations and run.now_seconds < thresholds.LONG_ENOUGH_SECONDS
    if is_early and run.used.last < run.limit.bytes:
        return _START, None
    began = iterations[0].t if iterations else 0.0
    fillings = fillings_of(run)
    own = [point for point in run.own.points if point[0] >= began]
    used = [point for point in run.used.points if point[0] >= began]
    room = run.limit.bytes - run.used.last
    left = time_left(own, run.own.last + room, fillings)
    others = [(t, float(total - size)) for (t, total), (_, size) in zip(used, own, strict=True)]
    if not is_rising(others):
        return left, None
    machine = time_left(used, run.limit.bytes, fillings)
    is_sooner = left.low_seconds is None or (machine.seconds_left or 0.0) < left.low_seconds
    return left, machine if machine.seconds_left is not None and is_sooner else None


def fillings_of(run: Run) -> list[Filling]:
    """Accounts with a known capacity that grew, of all processes that have snapshots."""
    by_pid: dict[int, list[Snapshot]] = {}
    for event in run.of_type(SnapshotEvent):
        by_pid.setdefault(event.pid, []).append(Snapshot.of(event))
    alive = {row.pid for row in run.alive}
    return [
        filling
        for pid, snapshots in by_pid.items()
        if pid in alive
        for filling in _fillings(snapshots)
    ]


def _fillings(snapshots: Sequence[Snapshot]) -> Iterator[Filling]:
    for account in {name: None for one in snapshots for name in one.entries}:
        capacity = capacity_of(account, snapshots)
        if capacity is None:
            continue
        points = [(one.t, float(held(one, account))) for one in snapshots]
        grown = max(size for _, size in points) - points[0][1]
        if grown >= thresholds.FILLING_BYTES or len(points) == 1:
            yield Filling(account, points, capacity)
