"""`ramledger report RECORDING…`: one HTML file to read and to send, or text in a terminal."""

import os
from typing import Annotated

from cyclopts import Parameter

from ramledger.diagnose.verdict import diagnose
from ramledger.errors import ConfigError, RecordingError
from ramledger.ledger import printable
from ramledger.recording import SUFFIX
from ramledger.report.html.page import encoded, page_html
from ramledger.report.html.page_data import page_documents
from ramledger.report.plan_grade import read_plan, with_plan
from ramledger.report.terminal.run_text import print_overview
from ramledger.report.terminal.statement_text import open_console
from ramledger.run.model import Run
from ramledger.units import format_bytes
from ramledger.user_files import has_mark, write_whole

_MARK = b"\xc2\xb7 ramledger</title>"  # of every page of ours

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Path = Annotated[str, Parameter(required=True, metavar="RECORDING")]
File = Annotated[str | None, Parameter(metavar="FILE")]
Out = Annotated[str | None, Parameter(name=("--out", "-o"), metavar="FILE")]


def report(
    *recordings: Path,
    out: Out = None,
    plan: File = None,
    terminal: Flag = False,
    json: Flag = False,
    force: Flag = False,
) -> int:
    """Write the page of a recording: verdict, memory over time, owners, findings, in one file.

    Parameters
    ----------
    recordings
        A file written by `ramledger run`; give two to compare them.
    out
        The page to write; by default beside the recording, as NAME.html.
    plan
        What `ramledger plan --json` said before: shown next to what was measured.
    terminal
        Print it here instead: verdict, trend, heat map, tables.
    json
        Print the data of the page as one JSON document.
    force
        Overwrite a file that was not written by `ramledger report`.
    """
    if len(recordings) > 2:
        raise ConfigError(
            "a report shows one recording or compares two", hint="give at most two recordings"
        )
    runs = [Run.read(path) for path in recordings]
    if terminal:
        console = open_console()
        for number, run in enumerate(runs):
            if number:
                console.print()
            print_overview(run, diagnose(run), console)
        return 0
    documents = page_documents(runs)
    if plan is not None:
        planned = read_plan(plan)
        documents = [with_plan(document, planned) for document in documents]
    if json:
        print(encoded(documents[0] if len(documents) == 1 else documents))
        return 0
    path = out or _beside(recordings[0])
    html = page_html(documents)
    _write(path, html, force=force)
    print(f"{printable(path)} ({format_bytes(len(html))})")
    return 0


def write_page(recording: str) -> str:
    """The page of one recording beside it; its path."""
    path = _beside(recording)
    _write(path, page_html(page_documents([Run.read(recording)])), force=False)
    return path


def _beside(recording: str) -> str:
    return recording.removesuffix(SUFFIX) + ".html"


def _write(path: str, html: str, *, force: bool) -> None:
    """Whole or not at all; a page of ours is replaced, nothing else is."""
    is_ours = has_mark(path, _MARK, within_bytes=4096)
    if not force and os.path.lexists(path) and not is_ours:
        raise RecordingError(
            f"{path} exists already and is no page of ramledger",
            hint="choose another name with --out, or --force",
        )
    write_whole(
        path,
        html.encode(),
        force=force or is_ours,
        error=RecordingError,
        hint="choose another place with --out",
    )
