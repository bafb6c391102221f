"""`ramledger plan --rehearse LENGTH -- COMMAND…`: parse, rehearse, print."""

import json as json_format
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ramledger.errors import ConfigError
from ramledger.ledger import Limit
from ramledger.measure.limits import tightest
from ramledger.measure.proc import require_linux
from ramledger.plan.budget import Budget
from ramledger.plan.rehearse import Length, Rehearsal, rehearse
from ramledger.plan.rehearsed_budget import budget_of_rehearsal
from ramledger.plan.variation import BUFFER_NAMES, Variation, at_value, parse_asked, with_capacity
from ramledger.units import parse_bytes

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
    """Rehearse once, or once for each value of `vary`, and print the plan of the whole run."""
    require_linux()
    if not command:
        raise ConfigError(
            "nothing to rehearse", hint="ramledger plan --rehearse 60s -- python train.py"
        )
    asked, wanted = parse_asked(at), Length.parse(length)
    limit = Limit(parse_bytes(ram), "--ram") if ram is not None else tightest(os.getpid())
    variation = Variation.parse(vary) if vary is not None else None
    commands = variation.commands(command) if variation is not None else [list(command)]
    budgets: list[Budget] = []
    for words in commands:
        found = rehearse(
            words, wanted, limit=limit, iterations=iterations, out=out, view_of=_view_of
        )
        if _was_interrupted(found):
            return EXIT_INTERRUPTED
        budgets.append(budget_of_rehearsal(found, " ".join(words)))
    budget = _asked(budgets, variation, asked)
    if found.reached_limit:
        budget = _too_large(budget)
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


def _was_interrupted(found: Rehearsal) -> bool:
    by_signal = found.outcome.signal == signal.SIGINT
    return not found.was_stopped and (by_signal or found.outcome.exit_code == EXIT_INTERRUPTED)


def _asked(
    budgets: Sequence[Budget], variation: Variation | None, asked: dict[str, float]
) -> Budget:
    budget = budgets[-1]
    for name, value in asked.items():
        if variation is not None and name == variation.name:
            budget = at_value(variation, budgets, value)
        elif name in BUFFER_NAMES:
            budget = with_capacity(budget, value)
        else:
            raise ConfigError(
                f"what {name} changes is not known from one rehearsal",
                hint=f"--vary '{name}=1,2' -- … {{{name}}} … rehearses with several values",
            )
    return budget


def _too_large(budget: Budget) -> Budget:
    """It came near the limit while it was rehearsed: that much it needs, at least."""
    limit = budget.ram.limit_bytes or 0
    needed = budget.ram.needed
    least = replace(
        needed,
        low=max(needed.low, limit),
        expected=max(needed.expected, limit + 1),
        high=max(needed.high, limit + 1),
    )
    return replace(budget, ram=replace(budget.ram, needed=least))
