"""`ramledger plan --rehearse LENGTH -- COMMAND…`: the budget of a training by its rehearsal."""

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ramledger.plan.rehearsals import InterruptedRehearsalError, rehearse
from ramledger.plan.variation import parse_asked

if TYPE_CHECKING:
    from ramledger.events import Header
    from ramledger.plan.budget import Budget
    from ramledger.recorder.session import SessionView

EXIT_INTERRUPTED = 128 + signal.SIGINT


def budget_by_rehearsal(
    command: Sequence[str],
    *,
    length: str,
    ram: str | None,
    iterations: int | None,
    vary: str | None,
    corners: bool,
    at: Sequence[str],
    out: str | None,
) -> "Budget | None":
    """Rehearse, with a line of progress now and then; None after Ctrl-C."""
    asked = parse_asked(at)
    try:
        found = rehearse(
            command, length, ram=ram, iterations=iterations, vary=vary, corners=corners, out=out,
            view_of=_view_of,
        )  # fmt: skip
    except InterruptedRehearsalError:
        return None
    return found.at(**asked)


def _view_of(header: "Header") -> "SessionView":
    from ramledger.cli.run_screens import RunView, open_screen

    return RunView(header, open_screen(quiet=False, plain=True))
