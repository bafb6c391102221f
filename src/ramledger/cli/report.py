"""`ramledger report RECORDING…`: one HTML file to read and to send, or text in a terminal."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ramledger.cli.run_screens import say
from ramledger.diagnose.verdict import diagnose
from ramledger.errors import ConfigError
from ramledger.ledger import printable
from ramledger.report.html.page import encoded
from ramledger.report.html.page_data import page_documents
from ramledger.report.html.page_file import beside, require_one_or_two, write_page
from ramledger.report.plan_grade import read_plan, with_plan
from ramledger.report.terminal.run_text import print_overview
from ramledger.report.terminal.statement_text import open_console
from ramledger.run.model import Run
from ramledger.units import format_bytes

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Recording = Annotated[str, Parameter(required=True, metavar="RECORDING")]
File = Annotated[str | None, Parameter(metavar="FILE")]
Out = Annotated[str | None, Parameter(name=("--out", "-o"), metavar="FILE")]


def report(
    *recordings: Recording,
    out: Out = None,
    plan: File = None,
    terminal: Flag = False,
    json: Flag = False,
    force: Flag = False,
    show: Annotated[bool, Parameter(name="--open", negative="", show_default=False)] = False,
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
    show
        Show the page in your browser.
    """
    require_one_or_two(recordings)
    if show and (terminal or json):
        raise ConfigError("--open shows the page", hint="leave out --terminal and --json")
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
    path, size_bytes = write_page(documents, out or beside(recordings[0]), force=force)
    print(f"{printable(path)} ({format_bytes(size_bytes)})", flush=True)
    if show and not _opened(path):
        say(f"no browser could be started here: open {printable(os.path.abspath(path))} in one")
    return 0


def _opened(path: str) -> bool:
    """Whether a browser was started; a machine without a screen has none."""
    import webbrowser  # few pages are opened

    try:
        return webbrowser.open(Path(path).absolute().as_uri())
    except (OSError, webbrowser.Error):
        return False
