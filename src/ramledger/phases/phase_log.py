"""Phases and iterations: what the training does when, and how much memory each phase takes.

A pass through a phase is measured when it starts and ends. Passes are added up: at most one event
per phase and reported iteration, and in long runs fewer iterations are reported. The API calls an
iteration `generation`.
"""

import functools
import operator
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, ParamSpec, Self, TypeVar

from ramledger.errors import ConfigError
from ramledger.events import Event, GenerationEvent, IterationsEvent, PhaseEvent
from ramledger.fork_lock import ForkLock
from ramledger.measure.children_and_shm import ChildrenAndShmMeter
from ramledger.measure.own_memory import Meter
from ramledger.phases.element_counts import ElementCounts
from ramledger.phases.growth_by_function import FunctionGrowth
from ramledger.phases.pass_counter import RisingNumbers
from ramledger.phases.progress import NOTHING, Progress, ProgressSoFar

P = ParamSpec("P")
R = TypeVar("R")

Sink = Callable[[Event], None]

EXPLICIT, NAMED, FRAMEWORK, INFERRED = "explicit", "named", "framework", "inferred"


class Rank(IntEnum):
    """Who numbers iterations: the highest that speaks, and what others counted is start-up."""

    NOBODY = 0
    LOOP = 1  # found in the call stack
    FRAMEWORK = 2  # a rollout, an epoch
    TRIAL = 3  # around rollouts and epochs
    LOOP_AROUND = 4  # the user's loop around a framework's iterations
    PHASES = 5  # that the user names
    NUMBERS = 6  # that the user gives


_RANK_OF_PHASES = {
    EXPLICIT: Rank.PHASES, NAMED: Rank.PHASES, FRAMEWORK: Rank.FRAMEWORK, INFERRED: Rank.NOBODY
}  # fmt: skip
END = "end"  # the phase of what comes after the training
TRIAL = "trial"  # the phase of a framework around its other phases

_MIN_SECONDS = 0.5  # generations shorter than this are reported together
_RARER = 1 / 3000  # ... and later in a run, those shorter than this share of it
_ALL_OF_THE_FIRST = 200  # iterations are all reported at first ...
_EARLY_SECONDS = 0.1  # ... those that repeated phases number, if they take that long
_MAX_NAME = 120
UNMEASURED = -1
# quantities whose growth is booked net of releases, wherever the release happens
NET_LEVELS = ("net_growth_bytes", "shm_growth_bytes", "children_growth_bytes")
_SLOW_SECONDS = 0.005  # passes at least this long are all measured: that costs about 20 µs
_REST_SECONDS = 0.02  # of faster passes, on average one in this time is measured ...
_MOST_SAVED = 8  # ... and at most so many in a row: a fast phase beside a slow one is measured, too
_PEAK_SECONDS = 0.05  # passes at least this long get their peak: that costs about 100 µs


@dataclass(slots=True)
class PhaseSum:
    """Passes of one phase within one reported iteration."""

    name: str
    origin: str
    count: int = 0
    measured: int = 0
    seconds: float = 0.0
    growth_bytes: int = 0
    before_bytes: int = 0
    after_bytes: int = 0
    peak_bytes: int = 0


@dataclass(slots=True)
class _Open:
    """A phase that is running now."""

    name: str
    origin: str
    started: float
    before_bytes: int = UNMEASURED
    peak_bytes: int = 0
    wants_peak: bool = False


@dataclass(frozen=True, slots=True)
class _Left:
    """When the last phase of the training ended, and (anonymous, file, shared) bytes then."""

    t: float
    split_bytes: tuple[int, int, int] | None


@dataclass(slots=True)
class _Generation:
    """The current iteration."""

    number: int
    started: float
    passes: int = 1
    first: str = ""  # the outermost phase with which it began
    sums: dict[str, PhaseSum] = field(default_factory=dict)


class PhaseLog:
    """All phases of one process. Thread-safe; phases of several threads may overlap."""

    def __init__(self, sink: Sink | None = None) -> None:
        self.sink = sink
        self.on_generation: Callable[[int], None] | None = None
        self.before_end: Callable[[str], None] | None = None  # of a phase, by its name
        self.is_in_loop: Callable[[], bool] = lambda: False  # whether the counted loop calls this
        self.rank = Rank.NOBODY
        self._origin = self._counted_by = ""
        self._numbers = RisingNumbers()
        self._progress = ProgressSoFar()
        self._last_of_all: int | None = None  # as the program says
        self.framework_was_in_loop = False  # its last phase, in a loop of the user's that was found
        self._names: set[str] = set()  # of phases in iterations that were reported
        self._left: _Left | None = None
        self._meter = Meter()
        self._outside = ChildrenAndShmMeter()
        self._net = {name: FunctionGrowth() for name in NET_LEVELS}
        self.element_counts = ElementCounts()
        self._lock = ForkLock()
        self._stacks = threading.local()
        self._born = time.monotonic()
        self._current: _Generation | None = None
        self._now = ""
        self._saved, self._saved_at = float(_MOST_SAVED), self._born
        self._reported = 0
        self._typical: dict[str, float] = {}  # seconds of the last pass, by phase

    def __reduce__(self) -> tuple[Any, ...]:
        # functions wrapped in a phase are pickled to workers: there they use the worker's log
        return _log_of_process, ()

    # ---- what users call ------------------------------------------------------------------

    def phase(self, name: str, generation: int | None = None, origin: str = EXPLICIT) -> "Phase":
        """A phase as a context manager or decorator."""
        number = None if generation is None else _whole(generation)
        return Phase(self, _checked(name), number, origin)

    def generation(self, number: int, of: int | None = None) -> None:
        """Iteration `number` begins here, of so many in all."""
        number = _whole(number)
        with self._lock:
            if of is not None:
                self._last_of_all = _whole(of) - 1
            self._begin(number, Rank.NUMBERS, EXPLICIT, "the program")

    def loop_pass(
        self, number: int, counted_by: str, progress: Progress = NOTHING, *, around: bool = False
    ) -> None:
        """Pass `number` of a loop begins that was found; `around`: a framework's iterations."""
        with self._lock:
            rank = Rank.LOOP_AROUND if around else Rank.LOOP
            self._begin(number, rank, INFERRED, counted_by, progress)

    def tell(self, progress: Progress) -> None:
        """How far the current pass of a loop is."""
        with self._lock:
            if self.rank in (Rank.LOOP, Rank.LOOP_AROUND):
                self._progress.hear(progress)

    @property
    def left_at(self) -> float | None:
        """When the last phase of the training ended; None if none has."""
        return self._left.t if self._left is not None else None

    @property
    def now(self) -> tuple[str, int | None]:
        """The phase running now, and the generation."""
        current = self._current
        return self._now, current.number if current else None

    # ---- start and end --------------------------------------------------------------------

    def enter(
        self, name: str, generation: int | None, origin: str, progress: Progress | None = None
    ) -> None:
        """A pass through a phase begins."""
        with self._lock:
            if generation is not None:
                self._begin(generation, Rank.NUMBERS, origin, "the program")
            else:
                self._maybe_next(name, origin, progress and self._progress.in_all(progress))
            now = time.monotonic()
            opened = _Open(name, origin, now)
            stack = self._stack()
            slow = self._typical.get(name, 1.0) >= _SLOW_SECONDS
            if slow or self._may_measure(now):
                self._measure_entry(opened, stack)
            stack.append(opened)
            self._now = name

    def _may_measure(self, now: float) -> bool:
        """Whether to measure a fast pass; unused measurements are saved up to a limit."""
        earned = (now - self._saved_at) / _REST_SECONDS
        self._saved, self._saved_at = min(_MOST_SAVED, self._saved + earned), now
        if self._saved < 1:
            return False
        self._saved -= 1
        return True

    def _measure_entry(self, opened: _Open, stack: list[_Open]) -> None:
        opened.before_bytes = self._meter.rss_bytes()
        self._book_net(stack)
        opened.wants_peak = self._typical.get(opened.name, 1.0) >= _PEAK_SECONDS
        if opened.wants_peak:
            for outer in stack:  # the peak that they reached so far must survive the reset
                outer.peak_bytes = max(outer.peak_bytes, self._meter.peak_bytes())
            self._meter.reset_peak()

    def leave(self) -> None:
        """The innermost phase of this thread ends."""
        stack = self._stack()
        if not stack:
            return
        done = stack[-1]
        if self.before_end is not None:
            self.before_end(done.name)
        with self._lock:
            if done.before_bytes != UNMEASURED:
                self._book_net(stack)
            stack.pop()
            now = time.monotonic()
            self._typical[done.name] = now - done.started
            after = peak = UNMEASURED
            if done.before_bytes != UNMEASURED:
                after = self._meter.rss_bytes()
                peak = max(done.peak_bytes, after, done.before_bytes)
                if done.wants_peak:
                    peak = max(peak, self._meter.peak_bytes())
                for outer in stack:
                    outer.peak_bytes = max(outer.peak_bytes, peak)
            self._now = stack[-1].name if stack else ""
            self._add(done, now, after, peak)
            if not stack:
                self._note_left(done, now, after != UNMEASURED)

    def _note_left(self, done: _Open, now: float, is_measured: bool) -> None:
        """Of the last phase of a training nobody knows that it is the last: note each."""
        if self._names and done.name not in self._names:
            return  # such as an evaluation after the training
        is_slow = is_measured and now - done.started >= _SLOW_SECONDS
        self._left = _Left(now, self._meter.split_bytes() if is_slow else None)

    def _book_net(self, stack: list[_Open]) -> None:
        """Book the change since the last start or end to the running phase."""
        running = [opened for opened in stack if opened.origin != FRAMEWORK] or stack
        name = running[-1].name if running else ""
        anon = self._meter.anon_bytes()
        levels = (anon, self._outside.shm_bytes(), self._outside.children_bytes(anon))
        for growth, level in zip(self._net.values(), levels, strict=True):
            growth.add(name, level)
        self.element_counts.count(name, outermost=not stack)

    def finish(self) -> None:
        """The training ends: report what is not reported yet, as it was when its last phase ended.

        What is measured now, at exit, is of the end.
        """
        with self._lock:
            left, current = self._left, self._current
            is_of_current = left is not None and current is not None and left.t >= current.started
            self._report(final=True, left=left if is_of_current else None)

    # ---- sums -----------------------------------------------------------------------------

    def _stack(self) -> list[_Open]:
        stack: list[_Open] | None = getattr(self._stacks, "open", None)
        if stack is None:
            stack = self._stacks.open = []
        return stack

    def _begin(
        self, raw: int, rank: Rank, origin: str, counted_by: str, progress: Progress = NOTHING
    ) -> None:
        if rank < self.rank:
            return
        if rank > self.rank or counted_by != self._counted_by:
            self._take_over(rank, origin, counted_by)
        if self._last_of_all is not None and rank is Rank.NUMBERS:
            progress = replace(progress, last_generation=self._last_of_all)
        self._progress.hear(progress)
        number = self._numbers.of(raw)
        current = self._current
        if current is not None and current.number == number:
            return
        if current is None or self._report(final=False):
            self._current = _Generation(number, time.monotonic())
        else:  # too short to report: the next one is added to it
            current.number = number
            current.passes += 1

    def _take_over(self, rank: Rank, origin: str, counted_by: str) -> None:
        """Somebody who knows better numbers iterations from now on."""
        self.rank, self._origin, self._counted_by = rank, origin, counted_by
        self._current = self._left = None
        self._numbers = RisingNumbers()
        self._names.clear()
        self._reported = 0
        for growth in self._net.values():
            growth.take()
        self._send(
            IterationsEvent(
                t=time.monotonic(), pid=os.getpid(), origin=origin, counted_by=counted_by
            )
        )

    def _maybe_next(self, name: str, origin: str, progress: Progress | None) -> None:
        """If nobody gives numbers, the next iteration begins when the first phase repeats.

        A phase within another one of the same kind numbers nothing.
        """
        rank = Rank.TRIAL if (name, origin) == (TRIAL, FRAMEWORK) else _RANK_OF_PHASES[origin]
        around = max((_RANK_OF_PHASES[opened.origin] for opened in self._stack()), default=0)
        is_within = around >= min(rank, Rank.PHASES)
        if rank in (Rank.FRAMEWORK, Rank.TRIAL) and not is_within:
            self.framework_was_in_loop = self.is_in_loop()
            if self.rank == Rank.LOOP and self.framework_was_in_loop:
                self.rank = Rank.LOOP_AROUND
        if is_within and self._current is not None and name == self._current.first:
            # it was the first one seen because we came in the middle of the one around it
            self._current.first = self._stack()[0].name
        if rank != Rank.NOBODY and rank >= self.rank and not is_within:
            self._next_by_phase(name, origin, rank, progress or NOTHING)
        elif progress is not None and self.rank != Rank.TRIAL:
            self._progress.hear_steps(progress)

    def _next_by_phase(self, name: str, origin: str, rank: Rank, progress: Progress) -> None:
        is_known = rank == self.rank
        current = self._current if is_known else None
        new_name = "phases" if rank == Rank.PHASES else name
        counted_by = self._counted_by if is_known else new_name
        if current is None:
            self._begin(0, rank, origin, counted_by, progress)
        elif name == current.first:
            self._begin(current.number + 1, rank, origin, counted_by, progress)
        elif progress is not NOTHING:
            self._progress.hear(progress)
        if self._current is not None and not self._current.first:
            self._current.first = name

    def _add(self, done: _Open, now: float, after_bytes: int, peak_bytes: int) -> None:
        current = self._current
        if current is None:
            return
        total = current.sums.get(done.name)
        if total is None:
            total = current.sums[done.name] = PhaseSum(done.name, done.origin)
        total.count += 1
        total.seconds += now - done.started
        if after_bytes == UNMEASURED:
            return
        if not total.measured:
            total.before_bytes = done.before_bytes
        total.measured += 1
        total.growth_bytes += after_bytes - done.before_bytes
        total.after_bytes = after_bytes
        total.peak_bytes = max(total.peak_bytes, peak_bytes)

    def _report(self, *, final: bool, left: _Left | None = None) -> bool:
        """Send the events of the current iteration; False if it is too early to report it."""
        current = self._current
        if current is None:
            return False
        now = time.monotonic()
        if not final and now - current.started < self._shortest_seconds(now):
            return False
        self._reported += 1
        self._names.update(current.sums)
        t = left.t if left is not None else now
        net = {name: growth.take_all() for name, growth in self._net.items()}
        self._send_phases(current, t, net)
        split = left.split_bytes if left is not None else None
        anon, file, shmem = split or self._meter.split_bytes()
        progress = self._progress.now
        self._send(
            GenerationEvent(
                t=t, pid=os.getpid(), generation=current.number,
                seconds=round(t - current.started, 4), rss_bytes=anon + file + shmem,
                anon_bytes=anon, file_bytes=file, shmem_bytes=shmem, passes=current.passes,
                origin=self._origin, is_final=final and split is None,
                steps=progress.steps, planned_steps=progress.planned_steps,
                last_generation=progress.last_generation,
                # change that belongs to phases of earlier iterations, or to the time between phases
                net_growth_bytes={k: size for k, size in net["net_growth_bytes"].items() if size},
                elements_added=self.element_counts.take(),
            )
        )  # fmt: skip
        if self.on_generation is not None and not final:  # at exit the observer measures itself
            self.on_generation(current.number)
        return True

    def _shortest_seconds(self, now: float) -> float:
        """An iteration that is shorter is reported together with the next."""
        if self._reported < _ALL_OF_THE_FIRST:
            return _EARLY_SECONDS if self.rank in (Rank.FRAMEWORK, Rank.PHASES) else 0.0
        return max(_MIN_SECONDS, (now - self._born) * _RARER)

    def _send_phases(self, current: _Generation, t: float, net: Mapping[str, Counter[str]]) -> None:
        pid = os.getpid()
        for total in current.sums.values():
            self._send(
                PhaseEvent(
                    t=t, pid=pid, name=total.name, generation=current.number,
                    seconds=round(total.seconds, 4), passes=total.count,
                    measured_passes=total.measured, growth_bytes=total.growth_bytes,
                    before_bytes=total.before_bytes, after_bytes=total.after_bytes,
                    peak_bytes=total.peak_bytes, origin=total.origin,
                    **{name: booked.pop(total.name, 0) for name, booked in net.items()},
                )
            )  # fmt: skip

    def _send(self, event: Event) -> None:
        if self.sink is not None:
            self.sink(event)


class Phase:
    """`with ledger.phase("train"):` or `@ledger.phase("train")`; may be entered many times."""

    def __init__(self, log: PhaseLog, name: str, generation: int | None, origin: str) -> None:
        self._log, self._name, self._generation, self._origin = log, name, generation, origin

    def __enter__(self) -> Self:
        self._log.enter(self._name, self._generation, self._origin)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.leave()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function so that each call is a pass through this phase."""

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            self._log.enter(self._name, self._generation, self._origin)
            try:
                return function(*args, **kwargs)
            finally:
                self._log.leave()

        return wrapped


def _whole(number: Any) -> int:
    """An int from any kind of integer, such as NumPy's."""
    try:
        if not isinstance(number, bool):
            return operator.index(number)
    except TypeError:
        pass
    raise ConfigError(
        f"generation must be a whole number, got {number!r}", hint="ledger.generation(3)"
    )


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name or len(name) > _MAX_NAME:
        raise ConfigError(f"not a phase name: {name!r}", hint='use a short word: phase("train")')
    return name


def _log_of_process() -> "PhaseLog":
    return PHASES


PHASES = PhaseLog()  # one per process
