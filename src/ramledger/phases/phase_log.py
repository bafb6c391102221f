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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Self, TypeVar

from ramledger.errors import ConfigError
from ramledger.events import Event, GenerationEvent, PhaseEvent
from ramledger.fork_lock import ForkLock
from ramledger.measure.children_and_shm import ChildrenAndShmMeter
from ramledger.measure.own_memory import Meter
from ramledger.phases.element_counts import ElementCounts
from ramledger.phases.growth_by_function import FunctionGrowth

P = ParamSpec("P")
R = TypeVar("R")

Sink = Callable[[Event], None]

EXPLICIT, NAMED, FRAMEWORK, INFERRED = "explicit", "named", "framework", "inferred"
_MIN_SECONDS = 0.5  # generations shorter than this are reported together
_RARER = 1 / 3000  # ... and later in a run, those shorter than this share of it
_ALL_OF_THE_FIRST = 200  # iterations that the program numbers itself are all reported at first
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


@dataclass(slots=True)
class _Generation:
    """The current iteration."""

    number: int
    started: float
    explicit: bool
    passes: int = 1
    first: str = ""  # the outermost phase with which it began
    sums: dict[str, PhaseSum] = field(default_factory=dict)


class PhaseLog:
    """All phases of one process. Thread-safe; phases of several threads may overlap."""

    def __init__(self, sink: Sink | None = None) -> None:
        self.sink = sink
        self.on_generation: Callable[[int], None] | None = None
        self.origin = ""
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

    def generation(self, number: int, origin: str = EXPLICIT) -> None:
        """Iteration `number` begins here."""
        with self._lock:
            self._begin(_whole(number), origin, explicit=True)

    @property
    def now(self) -> tuple[str, int | None]:
        """The phase running now, and the generation."""
        current = self._current
        return self._now, current.number if current else None

    # ---- start and end --------------------------------------------------------------------

    def enter(self, name: str, generation: int | None, origin: str) -> None:
        """A pass through a phase begins."""
        with self._lock:
            if generation is not None:
                self._begin(generation, origin, explicit=True)
            elif not self._stack():
                self._maybe_next(name, origin)
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
        with self._lock:
            stack = self._stack()
            if not stack:
                return
            done = stack[-1]
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
        """The training ends: report what is not reported yet."""
        with self._lock:
            self._report(final=True)

    # ---- sums -----------------------------------------------------------------------------

    def _stack(self) -> list[_Open]:
        stack: list[_Open] | None = getattr(self._stacks, "open", None)
        if stack is None:
            stack = self._stacks.open = []
        return stack

    def _begin(self, number: int, origin: str, *, explicit: bool) -> None:
        current = self._current
        if current is not None and current.explicit and not explicit:
            return
        if current is not None and current.number == number:
            return
        if current is None or not self._report(final=False):
            if current is None:
                self._current = _Generation(number, time.monotonic(), explicit)
            else:  # too short to report: the next one is added to it
                current.number, current.explicit = number, explicit
                current.passes += 1
        else:
            self._current = _Generation(number, time.monotonic(), explicit)
        self.origin = origin

    def _maybe_next(self, name: str, origin: str) -> None:
        """If the user gives no numbers, the next iteration begins when the first phase repeats."""
        current = self._current
        if current is None:
            self._begin(0, origin, explicit=False)
        elif not current.explicit and name == current.first:
            self._begin(current.number + 1, origin, explicit=False)
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

    def _report(self, *, final: bool) -> bool:
        """Send the events of the current iteration; False if it is too early to report it."""
        current = self._current
        if current is None:
            return False
        now = time.monotonic()
        shortest = max(_MIN_SECONDS, (now - self._born) * _RARER)
        if current.explicit and self._reported < _ALL_OF_THE_FIRST:
            shortest = 0.0
        if not final and now - current.started < shortest:
            return False
        self._reported += 1
        pid = os.getpid()
        net = {name: growth.take() for name, growth in self._net.items()}
        for total in current.sums.values():
            self._send(
                PhaseEvent(
                    t=now, pid=pid, name=total.name, generation=current.number,
                    seconds=round(total.seconds, 4), passes=total.count,
                    measured_passes=total.measured, growth_bytes=total.growth_bytes,
                    before_bytes=total.before_bytes, after_bytes=total.after_bytes,
                    peak_bytes=total.peak_bytes, origin=total.origin,
                    **{name: booked.pop(total.name, 0) for name, booked in net.items()},
                )
            )  # fmt: skip
        anon, file, shmem = self._meter.split_bytes()
        self._send(
            GenerationEvent(
                t=now, pid=pid, generation=current.number,
                seconds=round(now - current.started, 4), rss_bytes=anon + file + shmem,
                anon_bytes=anon, file_bytes=file, shmem_bytes=shmem, passes=current.passes,
                origin=self.origin, is_final=final,
                # change that belongs to phases of earlier iterations, or to the time between phases
                net_growth_bytes=dict(net["net_growth_bytes"]),
                elements_added=self.element_counts.take(),
            )
        )  # fmt: skip
        if self.on_generation is not None:
            self.on_generation(current.number)
        return True

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
