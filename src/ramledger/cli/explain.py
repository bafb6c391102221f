"""`ramledger explain PID…`: where the RAM of live processes is, right now."""

import json as json_format
import os
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import CoercionError, Parameter, Token, validators

from ramledger.cli.main import EXIT_ERROR, print_error
from ramledger.cli.slow_notice import patience
from ramledger.diagnose.advice import advise
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


Pid = Annotated[int, Parameter(required=True, converter=_read_pid)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
File = Annotated[str | None, Parameter(metavar="FILE")]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]


def explain(
    *pids: Pid,
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
    if svg is not None and len(pids) > 1:
        raise ConfigError("a picture shows one process", hint="give one PID with --svg")
    if svg is not None:
        _require_place(svg)
    statements: list[Statement] = []
    for pid in pids:
        try:
            with patience(f"still reading process {pid}"):
                statement = explain_process(pid, tree=tree, inside=inside, top=top)
            if not no_calibrate:
                with patience(f"measuring once what the libraries of process {pid} cost to import"):
                    statement = calibrated(statement)
        except RamledgerError as error:
            print_error(error.message, hint=error.hint)
            continue
        if not json:
            if statements:
                print()
            print_statement(statement, advise(statement), remarks(statement), top=top)
        statements.append(statement)
    if json:
        _print_json(statements, several=len(pids) > 1)
    if svg is not None and statements:
        _write_svg(svg, statements[0], top)
    return 0 if len(statements) == len(pids) else EXIT_ERROR


def _write_svg(path: str, statement: Statement, top: int) -> None:
    picture = statement_svg(statement, advise(statement), remarks(statement), top=top)
    write_whole(path, picture.encode(), force=True, error=ConfigError, hint=_SVG_HINT)


def _require_place(path: str) -> None:
    """Checked before the process is read: a picture of ours is replaced, nothing else is."""
    if os.path.lexists(path) and not has_mark(path, b"<svg", within_bytes=4):
        raise ConfigError(f"{path} exists already and is no picture", hint=_SVG_HINT)


def _print_json(statements: Sequence[Statement], *, several: bool) -> None:
    documents = [
        statement.to_dict()
        | {
            "advice": [item.to_dict() for item in advise(statement)],
            "remarks": remarks(statement),
        }
        for statement in statements
    ]
    if several:
        print(json_format.dumps(documents, indent=2))
    elif documents:
        print(json_format.dumps(documents[0], indent=2))
