"""`ramledger plan --rehearse LENGTH -- COMMAND…`: parse, rehearse, print."""

import json as json_format
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ramledger.plan.rehearsals import InterruptedRehearsalError, rehearse
from ramledger.plan.variation import parse_asked

if TYPE_CHECKING:
    from ramledger.events import Header
    from ramledger.recorder.session import SessionView

EXIT_DOES_NOT_FIT, EXIT_INTERRUPTED = 3, 128 + signal.SIGINT


def plan_by_rehearsal(
    command: Sequence[str],
    *,
    length: str,
    ram: str | None,
    iterations: int | None,
    vary: str | None,
    at: Sequence[str],
    out: str | None,
    json: bool,
    verbose: bool,
) -> int:
    """Rehearse, and print the plan of the whole run."""
    asked = parse_asked(at)
    try:
        found = rehearse(
            command, length, ram=ram, iterations=iterations, vary=vary, out=out, view_of=_view_of
        )
    except InterruptedRehearsalError:
        return EXIT_INTERRUPTED
    budget = found.at(**asked)
    if json:
        print(json_format.dumps(budget.to_dict(), indent=2))
    else:
        from rich.console import Console

        from ramledger.report.terminal.plan_text import print_budget

        print_budget(budget, Console(highlight=False, soft_wrap=False), verbose=verbose)
    return 0 if budget.fits else EXIT_DOES_NOT_FIT


def _view_of(header: "Header") -> "SessionView":
    from ramledger.cli.run_screens import RunView, open_screen

    return RunView(header, open_screen(quiet=False, plain=True))
