"""`ramledger run -- COMMAND…`: run a command and record its memory."""

import json as json_format
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token, validators
from rich.console import Console

from ramledger.cli.main import print_error
from ramledger.cli.run_screens import JsonLines, RunView, open_screen, say
from ramledger.cli.serve import start_beside
from ramledger.diagnose.finding import Diagnosis, Verdict
from ramledger.diagnose.verdict import diagnose
from ramledger.errors import ConfigError, RamledgerError
from ramledger.event_parts import Plan
from ramledger.events import SnapshotEvent
from ramledger.ledger import Limit
from ramledger.measure.limits import tightest
from ramledger.measure.proc import require_linux
from ramledger.recorder.limit_guard import OnLimit
from ramledger.recorder.session import Session, SessionOptions
from ramledger.recorder.supervise import Outcome, cannot_start, die_like, signals_held
from ramledger.remedies.catalog import environment_for, parse_apply
from ramledger.remedies.malloc_choice import choose
from ramledger.report.json.run_document import run_document
from ramledger.report.terminal.run_summary import print_summary
from ramledger.run.model import Run
from ramledger.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from ramledger.cli.metrics_endpoint import MetricsServer

EXIT_BAD = 3
LOG_WIDTH = 100  # where there is no terminal to ask


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
Passes = Annotated[int | None, Parameter(validator=validators.Number(gte=1), metavar="NUMBER")]
Names = Annotated[list[str] | None, Parameter(negative="", metavar="NAME")]
Counts = Annotated[
    list[str] | None,
    Parameter(negative="", metavar="CLASS=NUMBER", validator=_check_expectations),
]


def run(
    *command: Word,
    out: File = None,
    every: Seconds = 0.5,
    phase: Names = None,
    expect: Counts = None,
    limit: Size = None,
    on_limit: OnLimit = "warn",
    budget: Share = 0.01,
    iterations: Passes = None,
    plan: File = None,
    apply: Annotated[str | None, Parameter(metavar="REMEDIES")] = None,
    against: File = None,
    fail_on: Literal["leak", "limit"] | None = None,
    probe: Flag = False,
    plain: Flag = False,
    verbose: Flag = False,
    quiet: Flag = False,
    force: Flag = False,
    json: Flag = False,
    serve: Flag = False,
    prometheus: Address = None,
    log_json: Flag = False,
) -> int:
    """Run a command and record its memory; exit code, signals and output are unchanged.

    Parameters
    ----------
    command
        What to run, after `--`: everything there is the command's own.
    out
        The recording to write; by default NAME-DATE-TIME.ledger.jsonl in this directory.
    every
        Seconds between two samples.
    phase
        A function or method whose calls are a phase: `train_population` or `module:Class.method`.
    expect
        How many objects of a class may live, as in `TradingEnvironment=2`; more is reported.
    limit
        The memory the command may use, such as 25GiB; by default the container's or the host's.
    on_limit
        Near the limit: only report it, have the training save a checkpoint, or stop it after that.
    budget
        The share of the time that snapshots may take.
    iterations
        How many iterations the training will make, where it does not say so itself.
    plan
        A document of `ramledger plan --json`, rehearsed or not, that the run is compared with.
    apply
        Remedies to put in force without a change to the script: auto, or some of replay,
        replay=lz4, rollout, workers, malloc, threads.
    against
        The recording of an earlier run without remedies: the summary says what they saved, and
        malloc is set by what that run shows.
    fail_on
        Exit with code 3 if the run leaks (`leak`), or if it leaks or will not fit (`limit`).
    probe
        Collect garbage and trim the heap now and then; what that gives back shows the cause.
    plain
        A line every few seconds instead of the live view.
    verbose
        Print all tables at the end: the whole statement, trend, objects, functions, evidence.
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
        A JSON line on stdout for every iteration and at the end, for log shippers.
    """
    require_linux()
    asked = parse_apply(apply) if apply is not None else {}
    earlier = Run.read(against) if against is not None else None
    planned = _planned(plan) if plan is not None else None
    options = SessionOptions(
        out=out,
        every_seconds=every,
        phases=tuple(phase or ()),
        expectations=dict(map(_class_and_count, expect or ())),
        limit=tightest(os.getpid()) if limit is None else Limit(limit, "--limit"),
        on_limit=on_limit,
        budget=budget,
        iterations=iterations,
        plan=planned,
        force=force,
        probe=probe,
        environment=_environment(asked, earlier, planned),
    )
    problem = cannot_start(command, os.environ)
    if problem is not None:
        return _not_started(problem)
    metrics = _metrics(prometheus) if prometheus is not None else None
    with signals_held() as mask:
        session = Session(command, options)
        view = RunView(session.header, open_screen(quiet=quiet, plain=plain or json), metrics)
        if log_json:
            view.log = JsonLines()
        if metrics is not None:
            say(f"metrics: {metrics.url}")
        if serve:
            _serve(session.path)
        outcome = session.run(view, mask, streams={1: 2} if json else None)
        if outcome.problem:
            return _not_started(outcome)
        if session.trouble:
            view.run.notes.append(f"the recording is incomplete: {session.trouble}")
        diagnosis = _diagnosis(session.path)
        _report(view.run, session.path, diagnosis, earlier, quiet=quiet, json=json, verbose=verbose)
        if fail_on and diagnosis is not None and _fails(diagnosis, fail_on):
            return EXIT_BAD
        return die_like(outcome)


def _environment(asked: dict[str, str], earlier: Run | None, plan: Plan | None) -> dict[str, str]:
    if not asked:
        return {}
    if earlier is None:
        return environment_for(asked, os.environ, choose(plan=plan))
    statements = [event.statement for event in earlier.of_type(SnapshotEvent)]
    peaks = {row.pid: row.peak_bytes for row in earlier.processes.rows.values()}
    return environment_for(asked, os.environ, choose(statements, peaks, plan))


def _planned(path: str) -> Plan:
    from ramledger.event_codec import MalformedEventError, decode_plan  # few runs have a plan
    from ramledger.report.plan_grade import read_plan

    try:
        return decode_plan(dict(read_plan(path)))
    except MalformedEventError as error:
        raise ConfigError(f"{path}: not a plan: {error}") from error


def _fails(diagnosis: Diagnosis, fail_on: str) -> bool:
    does_not_fit = diagnosis.outlook is not None and diagnosis.outlook.fits is False
    return diagnosis.verdict is Verdict.LEAK or (fail_on == "limit" and does_not_fit)


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


def _report(
    run: Run,
    path: str,
    diagnosis: Diagnosis | None,
    against: Run | None,
    *,
    quiet: bool,
    json: bool,
    verbose: bool,
) -> None:
    if json:
        document = run_document(run, path, against)
        document["diagnosis"] = None if diagnosis is None else diagnosis.to_dict()
        print(json_format.dumps(document, indent=2))
    elif not quiet:
        with suppress(OSError):
            _print_summary(run, diagnosis, against, verbose=verbose)
    size = ""
    with suppress(OSError):
        size = f" ({format_bytes(os.path.getsize(path))})"
    say(f"recording: {path}{size}")
    if not quiet and not json:
        say(f"next: ramledger report {shlex.quote(path)}")


def _print_summary(
    run: Run, diagnosis: Diagnosis | None, against: Run | None, *, verbose: bool
) -> None:
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=True, highlight=False, width=LOG_WIDTH)
    console.print()
    print_summary(run, console, diagnosis, against, verbose=verbose)
    console.print()
