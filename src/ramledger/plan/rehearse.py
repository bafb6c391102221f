"""A rehearsal: the real program runs for a while and is recorded, within a hard limit of memory.

It is asked to stop (SIGINT, SIGTERM, then SIGKILL); nothing of it is left running.
"""

import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ramledger.agent.server import socket_path
from ramledger.attach.enter import ask_inside
from ramledger.diagnose.verdict import diagnose
from ramledger.errors import ConfigError, MeasureError, RamledgerError
from ramledger.events import Event, GenerationEvent, Header, SuggestionEvent
from ramledger.ledger import Limit
from ramledger.measure.known_process import KnownProcess
from ramledger.recorder.left_behind import nothing_left_behind
from ramledger.recorder.session import Session, SessionOptions, SessionView
from ramledger.recorder.supervise import Outcome, cannot_start, signals_held
from ramledger.run.history import LIVE
from ramledger.run.model import Run

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|seconds?|min|minutes?|it|iterations?)?")
_STEPS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, float("inf")))
_LIMIT_GRACE_SECONDS = 3.0
_CERTAIN = 0.1  # of the peak: how wide its interval may be when `auto` ends
_FEWEST_ITERATIONS, _JUDGE_SECONDS, _LONGEST_SECONDS = 6, 3.0, 600.0
_LAST_LINES = 12
_SNAPSHOT, _SNAPSHOT_SECONDS = {"verb": "snapshot"}, 10.0
_BUDGET = 0.05  # of its time for snapshots: a rehearsal is short, and they are what it is for


@dataclass(frozen=True, slots=True)
class Length:
    """How long to rehearse: some time, some iterations, or until the forecast is certain."""

    seconds: float | None = None
    iterations: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Length":
        """`60s`, `2min`, `3 iterations`, `auto`."""
        if text.strip() == "auto":
            return cls()
        found = _LENGTH.fullmatch(text.strip())
        if found is None or float(found[1]) <= 0:
            raise ConfigError(
                f"--rehearse {text}: not a length", hint="60s, 2min, 3 iterations or auto"
            )
        unit = (found[2] or "s")[0]
        if unit == "i":
            return cls(iterations=max(1, round(float(found[1]))))
        return cls(seconds=float(found[1]) * (60 if unit == "m" else 1))


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a rehearsal saw: the run as far as it came, and how it ended."""

    run: Run
    outcome: Outcome
    seconds: float
    was_stopped: bool  # by us, at its length
    output: str  # the last lines that the program wrote

    @property
    def reached_limit(self) -> bool:
        return any(pressure.action == "stop" for pressure in self.run.pressures)

    @property
    def suggestions(self) -> list[SuggestionEvent]:
        """The settings of its Optuna trial, if it makes one."""
        return list(self.run.of_type(SuggestionEvent))

    @property
    def iterations(self) -> int:
        return len(self.run.iterations.of(self.run.main_pid))


def rehearse_once(
    command: Sequence[str],
    length: Length,
    *,
    limit: Limit | None = None,
    iterations: int | None = None,
    corner: str = "",
    out: str | None = None,
    view_of: Callable[[Header], SessionView] | None = None,
) -> Rehearsal:
    """Run `command` for a while. `iterations`: of the whole training, where it does not say.

    At a `corner`, "low" or "high", each suggestion of an Optuna trial is that end of its range.
    """
    problem = cannot_start(command, os.environ)
    if problem is not None:
        raise ConfigError(problem.problem, hint="give the command of the training after `--`")
    with tempfile.TemporaryDirectory(prefix="ramledger-rehearsal-") as folder:
        path = out or os.path.join(folder, "rehearsal.ledger.jsonl")
        options = SessionOptions(
            out=path, limit=limit, on_limit="stop", grace_seconds=_LIMIT_GRACE_SECONDS,
            iterations=iterations, force=True, is_rehearsal=True, corner=corner,
            budget=_BUDGET,
        )  # fmt: skip
        log = Path(folder, "output.txt")
        with _streams(log) as streams, signals_held() as mask, nothing_left_behind():
            session = Session(command, options)
            view = _Stopping(session.header, length, view_of(session.header) if view_of else None)
            began = time.monotonic()
            outcome = session.run(view, mask, streams=streams)
            seconds = time.monotonic() - began
        if outcome.problem:
            raise ConfigError(outcome.problem)
        run = Run.read(path)
        return Rehearsal(run, outcome, seconds, view.has_stopped, _last_lines(log))


@contextmanager
def _streams(log: Path) -> Iterator[dict[int, int]]:
    """The program reads nothing, and what it writes is kept aside: the answer is ours alone."""
    with open(os.devnull, "rb") as nothing, log.open("wb") as written:
        yield {0: nothing.fileno(), 1: written.fileno(), 2: written.fileno()}


def _last_lines(log: Path) -> str:
    with suppress(OSError):
        size = log.stat().st_size
        with log.open("rb") as file:
            file.seek(max(0, size - 20_000))
            lines = file.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])
    return ""


class _Stopping:
    """Follows a run and stops it when it has gone on for long enough."""

    def __init__(self, header: Header, length: Length, shown: SessionView | None) -> None:
        self.run = Run(header, keep_events=True, bounds=LIVE)
        self.has_stopped = False
        self._length = length
        self._shown = shown
        self._began = time.monotonic()
        self._judged_at = self._told_at = 0.0
        self._told = 0
        self._iterations = 0
        # beside the thread that follows the run: what it sees meanwhile has to be taken in
        self._last_snapshot = threading.Thread(target=self._ask_for_snapshot, daemon=True)

    def _ask_for_snapshot(self) -> None:
        pid = self.run.main_pid
        if pid is not None and os.path.exists(socket_path(pid)):
            with suppress(RamledgerError, OSError):
                ask_inside(pid, _SNAPSHOT, method="agent", timeout_seconds=_SNAPSHOT_SECONDS)

    def saw(self, event: Event) -> None:
        self.run.take(event)
        if isinstance(event, GenerationEvent) and event.pid == self.run.main_pid:
            self._iterations += 1
        if self._shown is not None:
            self._shown.saw(event)

    def refresh(self) -> None:
        if self._shown is not None:
            self._shown.refresh()
        if not self.has_stopped and self._is_long_enough():
            self.has_stopped = True
            self._last_snapshot.start()
        if self.has_stopped and not self._last_snapshot.is_alive():
            self._stop()

    def _is_long_enough(self) -> bool:
        passed, length = time.monotonic() - self._began, self._length
        if length.seconds is not None:
            return passed >= length.seconds
        if length.iterations is not None:
            # the end of one more iteration tells that those are over
            return self._iterations > length.iterations or passed >= _LONGEST_SECONDS
        return passed >= _LONGEST_SECONDS or self._is_certain(passed)

    def _is_certain(self, passed: float) -> bool:
        is_due = passed - self._judged_at >= max(_JUDGE_SECONDS, 0.05 * passed)
        if self._iterations < _FEWEST_ITERATIONS or not is_due:
            return False
        self._judged_at = passed
        found = diagnose(self.run).outlook
        if found is None:
            return False
        low, high = found.interval_bytes
        return high - low <= _CERTAIN * found.peak_bytes

    def _stop(self) -> None:
        """One step after the other, each when the one before had time enough."""
        pid, now = self.run.processes.root_pid, time.monotonic()
        if pid is None or self._told >= len(_STEPS):
            return
        if self._told and now - self._told_at < _STEPS[self._told - 1][1]:
            return
        with suppress(MeasureError):
            KnownProcess.of(pid).send(_STEPS[self._told][0])
        self._told, self._told_at = self._told + 1, now

    def close(self) -> None:
        if self._shown is not None:
            self._shown.close()

    def mute(self) -> None:
        if self._shown is not None:
            self._shown.mute()

    def used_bytes(self) -> int:
        return self.run.used.last if len(self.run.used) else 0
