"""`ramledger diagnose RECORDING`: leak or not, and where, what, how much, since when, why."""

import json as json_format
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from ramledger.diagnose.comparison import compare as compared
from ramledger.diagnose.finding import Diagnosis, Verdict
from ramledger.diagnose.verdict import diagnose as judge
from ramledger.report.terminal.diagnosis_text import print_comparison, print_diagnosis
from ramledger.run.model import Run

EXIT_LEAK = 3

Flag = Annotated[bool, Parameter(negative="", show_default=False)]


def diagnose(
    recording: str,
    /,
    *,
    since: int | None = None,
    compare: str | None = None,
    json: Flag = False,
    verbose: Flag = False,
) -> int:
    """Judge a recording: leak, healthy or undecided, with the evidence. Exit code 3 on a leak.

    Parameters
    ----------
    recording
        A file written by `ramledger run` or `ramledger.record(out=...)`.
    since
        Judge only from this generation on.
    compare
        Another recording, such as one from before the fix: both verdicts side by side.
    json
        Print one JSON document.
    verbose
        Show the evidence behind healthy findings, too.
    """
    found = judge(Run.read(recording), since)
    console = Console(highlight=False, soft_wrap=False)
    if compare is not None:
        other = judge(Run.read(compare), since)
        if json:
            document = {
                "this": found.to_dict(),
                "other": other.to_dict(),
                "comparison": compared(other, found).to_dict(),
            }
            print(json_format.dumps(document, indent=2))
        else:
            print_comparison((recording, found), (compare, other), console)
    elif json:
        print(json_format.dumps(found.to_dict(), indent=2))
    else:
        print_diagnosis(found, console, verbose=verbose)
    return _exit_code(found)


def _exit_code(found: Diagnosis) -> int:
    return EXIT_LEAK if found.verdict is Verdict.LEAK else 0
