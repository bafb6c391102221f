"""`ramledger explain PID…`: where the RAM of live processes is, right now."""

import json as json_format
import os
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import CoercionError, Parameter, Token, validators

from ramledger.cli.main import EXIT_ERROR, EXIT_USAGE, print_error
from ramledger.cli.process_choice import matching_process
from ramledger.cli.slow_notice import patience
from ramledger.diagnose.advice import Advice, advise
from ramledger.diagnose.copied_lists import copied_now
from ramledger.diagnose.own_replay import with_replay_rows
from ramledger.diagnose.remarks import remarks
from ramledger.errors import ConfigError, RamledgerError
from ramledger.ledger import Statement
from ramledger.recorder.live_statement import calibrated, explain_process
from ramledger.report.terminal.statement_picture import statement_svg
from ramledger.report.terminal.statement_text import print_statement
from ramledger.user_files import has_mark, write_whole

# the kernel's PID_MAX_LIMIT on 64-bit systems (include/linux/threads.h)
PID_LIMIT = 1 << 22
_SVG_HINT = "choose another name with --svg"


def _read_pid(_: Any, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    if text.isascii() and text.isdecimal() and len(text) < 20 and 1 <= int(text) <= PID_LIMIT:
        return int(text)
    raise CoercionError(msg=f"not a process ID: {text!r}; they are numbers from 1 to {PID_LIMIT}")


Pid = Annotated[int, Parameter(converter=_read_pid)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
File = Annotated[str | None, Parameter(metavar="FILE")]
Name = Annotated[str, Parameter(metavar="NAME", show_default=False)]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]


def explain(
    *pids: Pid,
    match: Name = "",
    tree: Flag = False,
    inside: Flag = False,
    no_calibrate: Flag = False,
    json: Flag = False,
    top: Count = 20,
    svg: File = None,
) -> int:
    """Show where the RAM of live processes is, right now.

    Parameters
    ----------
    pids
        The processes to explain.
    match
        The process whose command line contains this; several are listed, and none is explained.
    tree
        Their child processes too; pages they share count once.
    inside
        Enter the process as well and name the objects that own its memory.
    no_calibrate
        Do not repeat the imports of the process in another one, once, to measure what they cost.
    json
        Print one JSON document: a statement, or a list of them for several processes.
    top
        How many accounts to print at most; all others are one row.
    svg
        Write the statement of one process as a picture as well.
    """
    if bool(pids) == bool(match):
        message = "PIDS and --match exclude each other" if pids else "PIDS are missing"
        print_error(f"{message}: 47068, or --match train.py", hint="ramledger explain --help")
        return EXIT_USAGE
    if match:
        pids = (matching_process(match).pid,)
    if svg is not None:
        _require_place(svg, pids)
    statements: list[Statement] = []
    for pid in pids:
        try:
            statement = _statement(pid, tree, inside, top, calibrate=not no_calibrate)
        except RamledgerError as error:
            print_error(error.message, hint=error.hint)
            continue
        if not json:
            if statements:
                print()
            print_statement(statement, _advice(statement), remarks(statement), top=top)
        statements.append(statement)
    if json:
        _print_json(statements, several=len(pids) > 1)
    if svg is not None and statements:
        _write_svg(svg, statements[0], top)
    return 0 if len(statements) == len(pids) else EXIT_ERROR


def _advice(statement: Statement) -> list[Advice]:
    return advise(statement, copied_now(statement))


def _statement(pid: int, tree: bool, inside: bool, top: int, *, calibrate: bool) -> Statement:
    with patience(f"still reading process {pid}"):
        statement = explain_process(pid, tree=tree, inside=inside, top=top)
    if calibrate:
        with patience(f"measuring once what the libraries of process {pid} cost to import"):
            statement = calibrated(statement)
    return with_replay_rows(statement)


def _write_svg(path: str, statement: Statement, top: int) -> None:
    picture = statement_svg(statement, _advice(statement), remarks(statement), top=top)
    write_whole(path, picture.encode(), force=True, error=ConfigError, hint=_SVG_HINT)


def _require_place(path: str, pids: Sequence[int]) -> None:
    """Checked before the process is read: a picture of ours is replaced, nothing else is."""
    if len(pids) > 1:
        raise ConfigError("a picture shows one process", hint="give one PID with --svg")
    if os.path.lexists(path) and not has_mark(path, b"<svg", within_bytes=4):
        raise ConfigError(f"{path} exists already and is no picture", hint=_SVG_HINT)


def _print_json(statements: Sequence[Statement], *, several: bool) -> None:
    documents = [
        statement.to_dict()
        | {
            "advice": [item.to_dict() for item in _advice(statement)],
            "remarks": remarks(statement),
        }
        for statement in statements
    ]
    if several:
        print(json_format.dumps(documents, indent=2))
    elif documents:
        print(json_format.dumps(documents[0], indent=2))
