"""`ramledger diagnose RECORDING`: leak or not, and where, what, how much, since when, why."""

import json as json_format
import os
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from ramledger.cli.main import print_error
from ramledger.diagnose.comparison import compare as compared
from ramledger.diagnose.finding import Diagnosis, Verdict
from ramledger.diagnose.verdict import diagnose as judge
from ramledger.errors import ConfigError
from ramledger.report.ci.code_places import CodePlace, path_in
from ramledger.report.ci.diagnosis_markdown import comparison_markdown, diagnosis_markdown
from ramledger.report.ci.github_annotations import annotations
from ramledger.report.terminal.diagnosis_text import print_comparison, print_diagnosis
from ramledger.run.model import Run

EXIT_LEAK = 3

Flag = Annotated[bool, Parameter(negative="", show_default=False)]


Format = Annotated[Literal["text", "markdown", "github"], Parameter(name="--format")]
Named = tuple[str, Diagnosis]


def diagnose(
    recording: str,
    /,
    *,
    since: int | None = None,
    compare: str | None = None,
    json: Flag = False,
    form: Format = "text",
    verbose: Flag = False,
) -> int:
    """Judge a recording: leak, healthy or undecided, with the evidence. Exit code 3 on a leak.

    Parameters
    ----------
    recording
        A file written by `ramledger run` or `ramledger.record(out=...)`.
    since
        Judge only from this iteration on.
    compare
        Another recording, such as one from before the fix: both verdicts side by side.
    json
        Print one JSON document.
    form
        `markdown` for a comment on a change; `github` for annotations in a job of GitHub, which
        also adds the Markdown to its summary.
    verbose
        Show the evidence behind healthy findings, too.
    """
    if json and form != "text":
        raise ConfigError("--json and --format exclude each other", hint="give one of them")
    this = (recording, judge(Run.read(recording), since))
    other = (compare, judge(Run.read(compare), since)) if compare is not None else None
    if json:
        _print_json(this[1], None if other is None else other[1])
    elif form == "markdown":
        print(_markdown(this, other), end="")
    elif form == "github":
        _print_for_github(this, other)
    elif other is not None:
        print_comparison(this, other, _console())
    else:
        print_diagnosis(this[1], _console(), verbose=verbose)
    return EXIT_LEAK if this[1].verdict is Verdict.LEAK else 0


def _console() -> Console:
    return Console(highlight=False, soft_wrap=False)


def _print_json(found: Diagnosis, other: Diagnosis | None) -> None:
    document = found.to_dict()
    if other is not None:
        comparison = compared(other, found).to_dict()
        document = {"this": document, "other": other.to_dict(), "comparison": comparison}
    print(json_format.dumps(document, indent=2))


def _markdown(this: Named, other: Named | None) -> str:
    return diagnosis_markdown(*this) if other is None else comparison_markdown(this, other)


def _print_for_github(this: Named, other: Named | None) -> None:
    comparison = None if other is None else compared(other[1], this[1])
    for line in annotations(this[1], _path_in_checkout, comparison):
        print(line)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with open(summary, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(_markdown(this, other))
        except OSError as error:  # the annotations are out, and the verdict stands
            print_error(f"the summary of the job was not written: {error}")


def _path_in_checkout(place: CodePlace) -> str:
    return path_in(os.environ.get("GITHUB_WORKSPACE") or os.getcwd(), place)
