"""`ramledger run -- COMMAND…`: a training under the ledger, as if it had been started alone."""

import json as json_format
import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token, validators
from rich.console import Console

from ramledger import __version__
from ramledger.agent.launch_environment import environment_with_agent
from ramledger.cli.main import print_error
from ramledger.cli.run_screens import JsonLines, Screen, Silence, open_screen, say
from ramledger.cli.serve import start_beside
from ramledger.diagnose.finding import Diagnosis, Verdict
from ramledger.diagnose.verdict import diagnose
from ramledger.errors import RamledgerError
from ramledger.event_codec import MalformedEventError, decode_header
from ramledger.events_bridge import from_old
from ramledger.ledger import Limit
from ramledger.measure.limits import OomEvents, oom_events, tightest
from ramledger.measure.proc import require_linux
from ramledger.recorder.limit_guard import OnLimit, PressureGuard
from ramledger.recorder.run_recorder import RunRecorder
from ramledger.recorder.supervise import (
    Callbacks,
    Outcome,
    cannot_start,
    die_like,
    signals_held,
    supervise,
)
from ramledger.recording import SUFFIX, RecordingWriter
from ramledger.report.json.run_document import run_document
from ramledger.report.terminal.diagnosis_text import print_diagnosis
from ramledger.report.terminal.run_summary import print_summary
from ramledger.run.model import Run
from ramledger.units import format_bytes, parse_bytes
from ramledger.user_files import current_directory

if TYPE_CHECKING:
    from ramledger.cli.metrics_endpoint import MetricsServer

EXIT_BAD = 3
RESCUE_SUFFIX = ".rescue"  # the folder beside the recording
LOG_WIDTH = 100  # where there is no terminal to ask
_NOT_INSIDE = (
    "measured from outside only: no Python of this command let the agent start"
    " (python -I, -S and -E leave it out, and it needs Python 3.11 or newer)"
)
_MAX_WAITING = 20_000
_KILLED_CODE = 128 + 9
_NEAR_LIMIT = 0.9
_LINGER_SECONDS = 0.3


def _size(_: Any, tokens: Sequence[Token]) -> int:
    return parse_bytes(tokens[0].value)


def _check_expectations(_: Any, texts: list[str] | None) -> None:
    for text in texts or ():
        _class_and_count(text)


def _class_and_count(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdecimal():
        raise ValueError(f"{text!r} is not CLASS=NUMBER, as in TradingEnvironment=2")
    return name, int(number)


Word = Annotated[str, Parameter(required=True)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Address = Annotated[str | None, Parameter(metavar="ADDRESS")]
File = Annotated[str | None, Parameter(metavar="FILE")]
Size = Annotated[int | None, Parameter(converter=_size, metavar="SIZE")]
Seconds = Annotated[
    float, Parameter(validator=validators.Number(gte=0.05, lte=3600), metavar="SECONDS")
]
Share = Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1), metavar="SHARE")]
Names = Annotated[list[str] | None, Parameter(negative="", metavar="NAME")]
Counts = Annotated[
    list[str] | None,
    Parameter(negative="", metavar="CLASS=NUMBER", validator=_check_expectations),
]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one run, checked."""

    out: str | None
    every_seconds: float
    phases: tuple[str, ...]
    expectations: Mapping[str, int]
    limit: Limit | None
    on_limit: OnLimit
    budget: float
    force: bool
    probe: bool


def run(
    *command: Word,
    out: File = None,
    every: Seconds = 0.5,
    phase: Names = None,
    expect: Counts = None,
    limit: Size = None,
    on_limit: OnLimit = "warn",
    budget: Share = 0.01,
    fail_on: Literal["leak"] | None = None,
    probe: Flag = False,
    plain: Flag = False,
    quiet: Flag = False,
    force: Flag = False,
    json: Flag = False,
    serve: Flag = False,
    prometheus: Address = None,
    log_json: Flag = False,
) -> int:
    """Run a command under the ledger. Its exit code, signals, terminal and output stay its own.

    Parameters
    ----------
    command
        What to run, after `--`: everything there is the command's own.
    out
        The recording to write; by default NAME-DATE-TIME.ledger.jsonl in this directory.
    every
        Seconds between two light samples.
    phase
        A function or method whose calls are a phase: `train_population` or `module:Class.method`.
    expect
        How many objects of a class may live, as in `TradingEnvironment=2`; more is reported.
    limit
        The memory the command may use, such as 25GiB; by default the container's or the host's.
    on_limit
        Near the limit: only say so, have the training save a checkpoint, or stop it after that.
    budget
        The share of the time that looking inside may take.
    fail_on
        Exit with code 3 if the run leaks.
    probe
        Collect garbage and trim the heap now and then; what that gives back tells causes apart.
    plain
        One line a generation instead of the live view.
    quiet
        Show nothing but where the recording is.
    force
        Overwrite the recording named by --out.
    json
        Print one JSON document on stdout at the end; the command's stdout goes to stderr.
    serve
        Show the page of the run live, at an address on this machine.
    prometheus
        Metrics for Prometheus at http://127.0.0.1:9464/metrics, as in :9464; 0.0.0.0:9464 for all.
    log_json
        A JSON line on stdout for every generation and at the end, for log shippers.
    """
    require_linux()
    options = Options(
        out=out,
        every_seconds=every,
        phases=tuple(phase or ()),
        expectations=dict(map(_class_and_count, expect or ())),
        limit=tightest(os.getpid()) if limit is None else Limit(limit, "--limit"),
        on_limit=on_limit,
        budget=budget,
        force=force,
        probe=probe,
    )
    problem = cannot_start(command, os.environ)
    if problem is not None:
        return _not_started(problem)
    screen = open_screen(quiet=quiet, plain=plain or json)
    metrics = _metrics(prometheus) if prometheus is not None else None
    with signals_held() as mask:
        session = Session(command, options, screen, metrics, stdout=2 if json else None)
        if log_json:
            session.log = JsonLines()
        if metrics is not None:
            say(f"metrics: {metrics.url}")
        if serve:
            _serve(session.path)
        outcome = session.run(mask)
        if outcome.problem:
            return _not_started(outcome)
        diagnosis = _diagnosis(session.path)
        _report(session, diagnosis, quiet=quiet, json=json)
        if fail_on and diagnosis is not None and diagnosis.verdict is Verdict.LEAK:
            return EXIT_BAD
        return die_like(outcome)


class Session:
    """One run: the command, its recorder and what is shown of it."""

    def __init__(
        self,
        command: Sequence[str],
        options: Options,
        screen: Screen,
        metrics: "MetricsServer | None" = None,
        stdout: int | None = None,
    ) -> None:
        self._command = command
        self._options = options
        self._screen = screen
        self._metrics = metrics
        self.log: Screen = Silence()
        self._stdout = stdout
        self._events: deque[dict[str, Any]] = deque(maxlen=_MAX_WAITING)
        header = _header(command, options)
        self.model = Run(decode_header(header)[0])
        self._writer = _open_writer(command, options, header)
        self.path = self._writer.path

    def run(self, mask: set[int]) -> Outcome:
        """Start the command and stay until it ends."""
        options = self._options
        guard = PressureGuard(options.limit, options.on_limit) if options.limit else None
        recorder = RunRecorder(
            self._writer,
            every_seconds=options.every_seconds,
            guard=guard,
            listener=self._events.append,
        )
        settings = {
            "recorder": recorder.socket_path,
            "phases": options.phases,
            "expectations": options.expectations,
            "budget": options.budget,
            "probe": options.probe,
            "rescue_folder": os.path.abspath(self.path.removesuffix(SUFFIX) + RESCUE_SUFFIX),
        }
        kills = oom_events(os.getpid())
        try:
            outcome = supervise(
                self._command,
                environment_with_agent(os.environ, settings),
                Callbacks(recorder.start, self._tick, self._screen.close),
                mask=mask,
                stdout=self._stdout,
            )
        finally:
            self._screen.close()
        if outcome.problem:
            self._abandon(recorder)
            return outcome
        self._finish(recorder, outcome, kills)
        return outcome

    def _tick(self) -> None:
        self._take_events()
        self._screen.refresh(self.model)
        if self._metrics is not None:
            self._metrics.refresh(self.model)

    def _take_events(self) -> None:
        while self._events:
            event = self._events.popleft()
            try:
                typed = from_old(event)
            except MalformedEventError:
                self.model.malformed_events += 1
                continue
            if typed is not None:
                self.model.take(typed)
                self._screen.saw(typed, self.model)
                self.log.saw(typed, self.model)

    def _abandon(self, recorder: RunRecorder) -> None:
        """Nothing ran, so nothing is left behind."""
        recorder.finish(None, None)
        with suppress(OSError):
            os.unlink(self.path)

    def _finish(self, recorder: RunRecorder, outcome: Outcome, kills: OomEvents | None) -> None:
        if outcome.callback_error is not None:
            text = f"the view of the run ended early: {outcome.callback_error!r}"
            recorder.emit({"event": "note", "text": text})
            self._screen = Silence()
        self._take_events()
        if not any(row.has_agent for row in self.model.processes.rows.values()):
            recorder.emit({"event": "note", "text": _NOT_INSIDE})
        lingering = self._lingering()
        self._screen = Silence()  # what comes now is in the summary
        if lingering:
            text = f"still running when the command ended: {', '.join(lingering)}"
            recorder.emit({"event": "note", "text": text})
        recorder.finish(
            outcome.exit_code,
            outcome.signal,
            killed_by_kernel=_was_killed_by_kernel(outcome, kills, self.model),
        )
        self._take_events()
        if self._writer.trouble:
            self.model.notes.append(f"the recording is not whole: {self._writer.trouble}")

    def _lingering(self) -> list[str]:
        """Processes that outlive the command; workers get a moment to see that it is gone."""
        others = [row.pid for row in self.model.alive if row.pid != self.model.processes.root_pid]
        deadline = time.monotonic() + _LINGER_SECONDS
        while (others := [pid for pid in others if _is_running(pid)]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.02)
        return [f"pid {pid}" for pid in others]


def _header(command: Sequence[str], options: Options) -> dict[str, Any]:
    system = os.uname()
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    limit = options.limit
    return {
        "ramledger": __version__,
        "started_at": time.time(),
        "command": list(command),
        "directory": current_directory(),
        "host": {
            "cores": os.cpu_count(),
            "ram_bytes": pages * page_bytes,
            "system": f"{system.sysname} {system.release}",
            "python": sys.version.split()[0],
        },
        "limit": {"bytes": limit.bytes, "source": limit.source} if limit else None,
        "settings": {"every_seconds": options.every_seconds, "budget": options.budget},
    }


def _open_writer(
    command: Sequence[str], options: Options, header: Mapping[str, Any]
) -> RecordingWriter:
    if options.out is not None:
        return RecordingWriter(options.out, header, force=options.force)
    name = f"{script_name(command)}-{time.strftime('%Y%m%d-%H%M%S')}"
    attempt, path = 1, f"{name}{SUFFIX}"
    while os.path.lexists(path):
        attempt, path = attempt + 1, f"{name}-{attempt + 1}{SUFFIX}"
    return RecordingWriter(path, header)


def script_name(command: Sequence[str]) -> str:
    """What a run is called: the script, the module after -m, or the program itself."""
    program = os.path.basename(command[0]) or "run"
    words = iter(command[1:] if _is_interpreter(program) else ())
    for word in words:
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            next(words, None)
        elif word in ("-c", "-"):
            break
        elif word == "-m":
            program = next(words, program)
            break
        elif not word.startswith("-"):
            program = os.path.basename(word)
            break
    stem = program.removesuffix(".py").removesuffix(".sh")
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in stem)[:80] or "run"


def _is_interpreter(program: str) -> bool:
    return program.startswith(("python", "pypy")) or program in ("sh", "bash", "dash", "zsh")


def _was_killed_by_kernel(outcome: Outcome, before: OomEvents | None, run: Run) -> bool:
    """Whether the kernel's count of kills for memory grew, and our command did not end well."""
    is_kill = outcome.signal == 9 or outcome.exit_code == _KILLED_CODE
    now = oom_events(os.getpid())
    if before is not None and now is not None:
        return now.oom_kills > before.oom_kills and (is_kill or outcome.exit_code != 0)
    limit = run.limit
    return is_kill and limit is not None and run.used.last >= _NEAR_LIMIT * limit.bytes


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def _metrics(address: str) -> "MetricsServer":
    from ramledger.cli.metrics_endpoint import MetricsServer  # few runs need a server

    return MetricsServer(address)


def _serve(path: str) -> None:
    url = start_beside(path)
    say(f"live page: {url}" if url else "the live page could not be started")


def _not_started(outcome: Outcome) -> int:
    print_error(outcome.problem)
    return outcome.exit_code or 1


def _diagnosis(path: str) -> Diagnosis | None:
    try:
        return diagnose(Run.read(path))
    except Exception as error:  # whatever is wrong with our verdict, the command's code is returned
        say(f"no verdict: {error if isinstance(error, RamledgerError) else repr(error)}")
        return None


def _report(session: Session, diagnosis: Diagnosis | None, *, quiet: bool, json: bool) -> None:
    if json:
        document = run_document(session.model, session.path)
        document["diagnosis"] = None if diagnosis is None else diagnosis.to_dict()
        print(json_format.dumps(document, indent=2))
    elif not quiet:
        with suppress(OSError):
            _print_summary(session.model, diagnosis)
    size = ""
    with suppress(OSError):
        size = f" ({format_bytes(os.path.getsize(session.path))})"
    say(f"recording: {session.path}{size}")


def _print_summary(run: Run, diagnosis: Diagnosis | None) -> None:
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=True, highlight=False, width=LOG_WIDTH)
    console.print()
    print_summary(run, console)
    if diagnosis is not None and run.iterations.of(run.main_pid):
        console.print()
        print_diagnosis(diagnosis, console, ending=False)
        console.print()
