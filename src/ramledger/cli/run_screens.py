"""What `ramledger run` shows while the command runs: pinned lines, a line now and then, nothing.

The command's own output is never touched: ours goes to stderr, beside or below it.
"""

import json
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from ramledger.diagnose.finding import Verdict
from ramledger.diagnose.live_judge import Judgement, LiveJudge, owner_of
from ramledger.events import (
    Event,
    ExpectationEvent,
    GenerationEvent,
    Header,
    IterationsEvent,
    NoteEvent,
    PressureEvent,
    RunEndEvent,
)
from ramledger.ledger import printable
from ramledger.report.terminal.growth_words import (
    growing_text,
    leak_warning,
    outlook_text,
    pressure_text,
)
from ramledger.report.terminal.live_view import (
    broken_expectation,
    iteration_text,
    live_lines,
    machine_parts,
)
from ramledger.report.terminal.pinned_lines import PinnedLines, can_pin
from ramledger.run.history import LIVE
from ramledger.run.model import Run
from ramledger.units import format_bytes, format_delta, format_duration

if TYPE_CHECKING:
    from ramledger.cli.metrics_endpoint import MetricsServer

REDRAW_SECONDS = 1.0
LINE_SECONDS, LONGEST_SECONDS = 5.0, 60.0  # between two lines of the log
_LINE_SHARE = 0.05  # of the time so far: a run of hours needs no line every few seconds
_TAKEN_BACK = 0.25  # of the time: for so long nothing must leak before a warning is taken back


class Screen(Protocol):
    """Where a run is shown. `saw` gets every event after the run has taken it in."""

    def saw(self, event: Event, run: Run, now: Judgement) -> None: ...

    def refresh(self, run: Run, now: Judgement) -> None: ...

    def close(self) -> None: ...

    def end(self, run: Run, now: Judgement) -> None:
        """The command has ended: show what waits."""


class Silence:
    """Nothing is shown."""

    def saw(self, event: Event, run: Run, now: Judgement) -> None:
        pass

    def refresh(self, run: Run, now: Judgement) -> None:
        pass

    def close(self) -> None:
        pass

    def end(self, run: Run, now: Judgement) -> None:
        pass


class Lines(Silence):
    """A short line every few seconds for the iterations since, one for whatever cannot wait."""

    def __init__(self) -> None:
        self._run_bytes: int | None = None
        self._broken: set[str] = set()  # classes that were reported: once is enough
        self._leaks: list[str] = []  # the same, by owner
        self._healthy_since: float | None = None
        self._began_at: float | None = None  # to wait for the next line
        self._is_due = self._has_said = False

    def saw(self, event: Event, run: Run, now: Judgement) -> None:
        if isinstance(event, IterationsEvent):
            if event.pid == run.main_pid:
                self._begin_anew(event, run)
        elif isinstance(event, GenerationEvent):
            if event.pid == run.main_pid and not event.is_final:
                self._is_due = True
                self._say_if_due(run, now)
        elif isinstance(event, ExpectationEvent):
            if event.type not in self._broken:
                self._broken.add(event.type)
                say(broken_expectation(event), beside_bar=run.has_bar)
        elif isinstance(event, PressureEvent):
            say(pressure_text(event), beside_bar=run.has_bar)
        elif isinstance(event, NoteEvent):
            say(event.text, beside_bar=run.has_bar)

    def refresh(self, run: Run, now: Judgement) -> None:
        """A leak is said once it is certain, and once more if it was none."""
        if now.leak is not None and owner_of(now.leak) not in self._leaks:
            self._leaks.append(owner_of(now.leak))
            say(leak_warning(now.leak), beside_bar=run.has_bar)
        if now.diagnosis is None or now.diagnosis.verdict is not Verdict.HEALTHY:
            self._healthy_since = None
        elif self._healthy_since is None:
            self._healthy_since = run.now_seconds
        elif self._leaks and run.now_seconds * (1 - _TAKEN_BACK) >= self._healthy_since:
            names = " and ".join(filter(None, self._leaks)) or "memory"
            say(f"{names}: stopped growing, not a leak", beside_bar=run.has_bar)
            self._leaks.clear()

    def end(self, run: Run, now: Judgement) -> None:
        """A run too short for a line has one now; else the summary says it all."""
        if not self._has_said:
            self._say_if_due(run, now, at_once=True)

    def _begin_anew(self, event: IterationsEvent, run: Run) -> None:
        if self._has_said:
            say(
                f"iterations are those of {event.counted_by} from here on; "
                "everything before was start-up",
                beside_bar=run.has_bar,
            )
        self._run_bytes, self._began_at = None, event.t
        self._is_due = self._has_said = False

    def _say_if_due(self, run: Run, judged: Judgement, *, at_once: bool = False) -> None:
        now = run.now_seconds
        if self._began_at is None:
            self._began_at = now
        pause = min(LONGEST_SECONDS, max(LINE_SECONDS, _LINE_SHARE * now))
        has_waited = now - self._began_at >= pause
        if self._is_due and (has_waited or at_once) and run.iterations.of(run.main_pid):
            self._began_at, self._is_due, self._has_said = now, False, True
            say(self._iteration(run, judged), beside_bar=run.has_bar and not at_once)

    def _iteration(self, run: Run, now: Judgement) -> str:
        row = run.iterations.of(run.main_pid)[-1]
        size = round(run.tree.last) if len(run.tree) else row.rss_bytes
        before, self._run_bytes = self._run_bytes, size
        change = "" if before is None else f", {format_delta(size - before)}"
        parts = [
            f"{iteration_text(run, row.generation)} at {format_duration(row.t)}",
            f"run {format_bytes(size)}{change}",
        ]
        if run.limit is not None and run.limit.bytes:
            parts[-1] += f" (limit {format_bytes(run.limit.bytes)})"
            parts += machine_parts(run, now, run.limit)
        if now.growing is not None:
            parts.append(growing_text(now.growing))
        parts += filter(None, [outlook_text(run, now)])
        return " · ".join(parts)


class JsonLines(Silence):
    """A JSON line on stdout for every generation and at the end: for what collects logs."""

    def saw(self, event: Event, run: Run, now: Judgement) -> None:
        if isinstance(event, GenerationEvent):
            if event.pid == run.main_pid:
                planned = run.planned
                self._write(
                    "generation",
                    run,
                    now,
                    generation=event.generation,
                    last_generation=planned.last_iteration,
                    steps=planned.steps,
                    planned_steps=planned.last_step,
                )
        elif isinstance(event, PressureEvent):
            self._write("pressure", run, now, usage_bytes=event.usage_bytes, action=event.action)
        elif isinstance(event, RunEndEvent):
            self._write(
                "end",
                run,
                now,
                exit_code=event.exit_code,
                signal=event.signal,
                killed_by_kernel=event.killed_by_kernel,
            )

    def _write(self, kind: str, run: Run, now: Judgement, **more: Any) -> None:
        line = {
            "ramledger": kind,
            "t": round(run.now_seconds, 3),
            "resident_bytes": round(run.tree.last) if len(run.tree) else None,
            "peak_bytes": run.peak_bytes,
            "limit_bytes": run.limit.bytes if run.limit else None,
            "seconds_left": now.run_left.seconds_left if now.run_left else None,
            "growth_bytes_per_generation": run.growth_per_iteration(),
            **more,
        }
        with suppress(OSError, ValueError, AttributeError):
            print(json.dumps(line, separators=(",", ":")), flush=True)


class Pinned(Silence):
    """The live view at the bottom of the terminal, below the command's own output."""

    def __init__(self, fd: int) -> None:
        self._lines = PinnedLines(fd)
        self._console = Console(stderr=True)
        self._drawn_at = float("-inf")
        self._room = (0, 0)

    def refresh(self, run: Run, now: Judgement) -> None:
        at, room = time.monotonic(), self._lines.room()
        is_due = at - self._drawn_at >= REDRAW_SECONDS or room != self._room
        if not is_due or not all(room) or not len(run.tree):
            return
        self._drawn_at, self._room = at, room
        self._lines.draw(self._rendered(run, now, room[1], room[0]))

    def _rendered(self, run: Run, now: Judgement, width: int, height: int) -> list[str]:
        with self._console.capture() as captured:
            for line in live_lines(run, width, height, now):
                self._console.print(line, no_wrap=True, overflow="ignore", crop=False)
        return captured.get().splitlines()

    def close(self) -> None:
        self._lines.close()
        self._drawn_at = float("-inf")


class RunView:
    """Follows a run: its model, the screen, a log, and metrics for whoever scrapes them."""

    def __init__(
        self, header: Header, screen: Screen, metrics: "MetricsServer | None" = None
    ) -> None:
        self.run = Run(header, keep_events=True, bounds=LIVE)
        self._judge = LiveJudge(self.run)
        self.log: Screen = Silence()
        self._screen = screen
        self._metrics = metrics

    def saw(self, event: Event) -> None:
        """Take one event in, and show what it changes."""
        self.run.take(event)
        self._screen.saw(event, self.run, self._judge.now)
        self.log.saw(event, self.run, self._judge.now)

    def refresh(self) -> None:
        """Judge what is due, and draw again what is shown all the time."""
        is_seen = type(self._screen) is not Silence or type(self.log) is not Silence
        now = self._judge.refresh() if is_seen or self._metrics is not None else self._judge.now
        self._screen.refresh(self.run, now)
        if self._metrics is not None:
            self._metrics.refresh(self.run, now.run_left)

    def close(self) -> None:
        """Give the terminal back."""
        self._screen.close()

    def mute(self) -> None:
        """Show nothing any more; the model still follows."""
        self._screen.end(self.run, self._judge.now)
        self._screen = Silence()

    def used_bytes(self) -> int:
        """What counts against the limit now."""
        return round(self.run.used.last) if len(self.run.used) else 0


def open_screen(*, quiet: bool, plain: bool) -> Screen:
    """What fits: the live view needs a terminal that can be pinned to and shows blocks."""
    if quiet or sys.stderr is None:
        return Silence()
    encoding = (getattr(sys.stderr, "encoding", "") or "").lower().replace("-", "")
    try:
        fd = sys.stderr.fileno()
    except (OSError, ValueError):
        return Silence()
    if plain or encoding != "utf8" or not can_pin(fd):
        return Lines()
    return Pinned(fd)


def say(text: str, *, beside_bar: bool = False) -> None:
    """One line on stderr; nobody may be listening any more.

    `beside_bar`: the command draws a progress bar, so the line that it writes to has no end yet.
    """
    with suppress(OSError, ValueError, AttributeError):
        shown = printable(" ".join(text.split()))
        start = _line_start() if beside_bar else ""
        print(f"{start}ramledger: {shown}", file=sys.stderr, flush=True)


def _line_start() -> str:
    """What leads to the beginning of a line without erasing what was written.

    In a terminal, blanks up to the last column: they wrap only where the line is not empty.
    """
    if not sys.stderr.isatty():
        return "\n"
    return " " * (os.get_terminal_size(sys.stderr.fileno()).columns - 1) + "\r"
