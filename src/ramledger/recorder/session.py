"""One `ramledger run`: a command, its recorder and whoever follows its events, until the end."""

import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from ramledger import __version__
from ramledger.event_parts import Host, Plan, RunSettings
from ramledger.events import Event, Header, PlanEvent, ProcessEndEvent, ProcessEvent
from ramledger.ledger import Limit
from ramledger.measure.limits import OomEvents, oom_events
from ramledger.recorder.limit_guard import LimitGuard, OnLimit
from ramledger.recorder.recording_name import free_path
from ramledger.recorder.run_recorder import RunRecorder
from ramledger.recorder.supervise import Callbacks, Outcome, supervise
from ramledger.recording import SUFFIX, RecordingWriter
from ramledger.user_files import current_directory

RESCUE_SUFFIX = ".rescue"  # the folder beside the recording
_NOT_INSIDE = (
    "measured from outside only: no Python of this command let the agent start"
    " (python -I, -S and -E leave it out, and it needs Python 3.11 or newer)"
)
_MAX_WAITING = 20_000
_KILLED_CODE = 128 + 9
_NEAR_LIMIT = 0.9
_LINGER_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options of one run, checked."""

    out: str | None = None
    every_seconds: float = 0.5
    phases: tuple[str, ...] = ()
    expectations: Mapping[str, int] | None = None
    limit: Limit | None = None
    on_limit: OnLimit = "warn"
    grace_seconds: float = 20.0
    budget: float = 0.01
    iterations: int | None = None
    plan: Plan | None = None  # that the run is compared with
    force: bool = False
    probe: bool = False
    is_rehearsal: bool = False
    corner: str = ""  # of an Optuna search: "low" or "high"
    environment: Mapping[str, str] = field(default_factory=dict)  # variables of remedies


class SessionView(Protocol):
    """Whoever follows a run: called by the thread that waits for the command."""

    def saw(self, event: Event) -> None: ...

    def refresh(self) -> None: ...

    def close(self) -> None:
        """Give the terminal back: the command has ended or is stopped."""

    def mute(self) -> None:
        """Show nothing any more, but follow the events to their end."""

    def used_bytes(self) -> int:
        """What counts against the limit now."""


class Session:
    """One run of a command. The recording is open from the start; `run` returns at the end."""

    def __init__(self, command: Sequence[str], options: SessionOptions) -> None:
        self._command = command
        self._options = options
        self.header = _header(command, options)
        path = options.out or free_path(command)
        self._writer = RecordingWriter(path, self.header, force=bool(options.out) and options.force)
        self.path = path
        self._events: deque[Event] = deque(maxlen=_MAX_WAITING)
        self._alive: set[int] = set()
        self._has_agent = False

    @property
    def trouble(self) -> str:
        """Why the recording is incomplete; '' if it is."""
        return self._writer.trouble

    def run(
        self, view: SessionView, mask: set[int], *, streams: Mapping[int, int] | None = None
    ) -> Outcome:
        """Start the command and stay until it ends; `mask` and `streams` as in `supervise`."""
        options = self._options
        recorder = RunRecorder(
            self._writer,
            every_seconds=options.every_seconds,
            guard=self._guard(),
            listener=self._events.append,
        )

        def start(pid: int) -> None:
            recorder.start(pid)
            if options.plan is not None:
                recorder.emit(PlanEvent(t=recorder.now(), pid=pid, plan=options.plan))

        def tick() -> None:
            self._hand_over(view)
            view.refresh()

        kills = oom_events(os.getpid())
        try:
            outcome = supervise(
                self._command,
                recorder.environment(
                    {**os.environ, **self._options.environment}, **self._agent_settings()
                ),
                Callbacks(start, tick, view.close),
                mask=mask,
                streams=streams,
            )
        finally:
            view.close()
        if outcome.problem:
            self._abandon(recorder)
        else:
            self._finish(recorder, view, outcome, kills)
        return outcome

    def _guard(self) -> LimitGuard | None:
        options = self._options
        if options.limit is None:
            return None
        return LimitGuard(options.limit, options.on_limit, options.grace_seconds)

    def _agent_settings(self) -> dict[str, Any]:
        return {
            "phases": self._options.phases,
            "expectations": dict(self._options.expectations or {}),
            "budget": self._options.budget,
            "probe": self._options.probe,
            "is_rehearsal": self._options.is_rehearsal,
            "corner": self._options.corner,
            "rescue_folder": os.path.abspath(self.path.removesuffix(SUFFIX) + RESCUE_SUFFIX),
        }

    def _hand_over(self, view: SessionView) -> None:
        while self._events:
            event = self._events.popleft()
            if isinstance(event, ProcessEvent):
                self._alive.add(event.pid)
                self._has_agent = self._has_agent or event.has_agent
            elif isinstance(event, ProcessEndEvent):
                self._alive.discard(event.pid)
            view.saw(event)

    def _abandon(self, recorder: RunRecorder) -> None:
        """Nothing ran, so nothing is left behind."""
        recorder.finish(None, None)
        with suppress(OSError):
            os.unlink(self.path)

    def _finish(
        self, recorder: RunRecorder, view: SessionView, outcome: Outcome, kills: OomEvents | None
    ) -> None:
        if outcome.callback_error is not None:
            recorder.note(f"the view of the run ended early: {outcome.callback_error!r}")
            view.mute()
        self._hand_over(view)
        if not self._has_agent:
            recorder.note(_NOT_INSIDE)
        lingering = self._lingering()
        view.mute()  # what comes now is in the summary
        if lingering:
            recorder.note(f"still running when the command ended: {', '.join(lingering)}")
        is_kill = self._was_killed_by_kernel(outcome, kills, view)
        recorder.finish(outcome.exit_code, outcome.signal, killed_by_kernel=is_kill)
        self._hand_over(view)

    def _lingering(self) -> list[str]:
        """Processes that outlive the command; workers get a moment to see that it is gone."""
        others = sorted(pid for pid in self._alive if _is_running(pid))
        deadline = time.monotonic() + _LINGER_SECONDS
        while others and time.monotonic() < deadline:
            time.sleep(0.02)
            others = [pid for pid in others if _is_running(pid)]
        return [f"pid {pid}" for pid in others]

    def _was_killed_by_kernel(
        self, outcome: Outcome, before: OomEvents | None, view: SessionView
    ) -> bool:
        """Whether the kernel's count of kills for memory grew, and our command did not end well."""
        is_kill = outcome.signal == 9 or outcome.exit_code == _KILLED_CODE
        now = oom_events(os.getpid())
        if before is not None and now is not None:
            return now.oom_kills > before.oom_kills and (is_kill or outcome.exit_code != 0)
        limit = self._options.limit
        return is_kill and limit is not None and view.used_bytes() >= _NEAR_LIMIT * limit.bytes


def _header(command: Sequence[str], options: SessionOptions) -> Header:
    system = os.uname()
    return Header(
        ramledger=__version__,
        started_at=time.time(),
        command=tuple(command),
        directory=current_directory(),
        host=Host(
            cores=os.cpu_count(),
            ram_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            system=f"{system.sysname} {system.release}",
            python=sys.version.split()[0],
        ),
        limit=options.limit,
        settings=RunSettings(options.every_seconds, options.budget, options.iterations),
    )


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False
