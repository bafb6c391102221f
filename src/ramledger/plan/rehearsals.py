"""`ramledger.rehearse(command)`: what rehearsals show, and what other settings need."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ramledger.errors import ConfigError
from ramledger.events import Header
from ramledger.ledger import Limit
from ramledger.measure.limits import tightest
from ramledger.measure.proc import require_linux
from ramledger.plan.budget import Budget
from ramledger.plan.rehearse import Length, Rehearsal, rehearse_once
from ramledger.plan.rehearsed_budget import budget_of_rehearsal
from ramledger.plan.search_corners import with_corners
from ramledger.plan.variation import BUFFER_NAMES, Variation, at_value, with_capacity
from ramledger.recorder.session import SessionView
from ramledger.units import parse_bytes

_CORNERS = ("low", "high")  # the largest one is the plan


class InterruptedRehearsalError(ConfigError):
    """Ctrl-C, or SIGINT from elsewhere, while it ran."""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The plan of a program by its rehearsals: one, or one for each value of a setting."""

    budgets: tuple[Budget, ...]
    variation: Variation | None = None

    @property
    def budget(self) -> Budget:
        """Of the last one."""
        return self.budgets[-1]

    def at(self, **values: float) -> Budget:
        """With other values: of the setting that was varied, or of a buffer's length."""
        budget = self.budget
        for name, value in values.items():
            if self.variation is not None and name == self.variation.name:
                budget = at_value(self.variation, self.budgets, value)
            elif name in BUFFER_NAMES:
                budget = with_capacity(budget, value)
            else:
                raise ConfigError(
                    f"what {name} changes is not known from one rehearsal",
                    hint=f"--vary '{name}=1,2' -- … {{{name}}} … rehearses with several values",
                )
        return budget


def rehearse(
    command: Sequence[str],
    length: str = "60s",
    *,
    ram: str | int | None = None,
    iterations: int | None = None,
    vary: str | None = None,
    corners: bool = False,
    out: str | None = None,
    view_of: Callable[[Header], SessionView] | None = None,
) -> Rehearsed:
    """Run a training for a while, within a limit of memory, and plan the whole of it.

    `length`: 60s, 2min, 3 iterations or auto; `vary`: 'n_envs=2,4' for `{n_envs}` in the command;
    `corners`: a trial of the command's Optuna search with the least and one with the most of each.
    """
    require_linux()
    if not command:
        raise ConfigError(
            "nothing to rehearse", hint="ramledger plan --rehearse 60s -- python train.py"
        )
    wanted = Length.parse(length)
    limit = Limit(parse_bytes(ram), "--ram") if ram is not None else tightest(os.getpid())
    variation = Variation.parse(vary) if vary is not None else None
    if corners and variation is not None:
        raise ConfigError("--corners and --vary do not go together", hint="use one of them")
    commands = variation.commands(command) if variation is not None else [list(command)]
    tries = [(words, corner) for corner in (_CORNERS if corners else ("",)) for words in commands]
    found = []
    for words, corner in tries:
        found.append(
            rehearse_once(
                words, wanted, limit=limit, iterations=iterations, corner=corner, out=out,
                view_of=view_of,
            )
        )  # fmt: skip
        if _was_interrupted(found[-1]):
            raise InterruptedRehearsalError("the rehearsal was interrupted")
        if corners and not found[-1].suggestions:
            raise ConfigError(
                "no Optuna trial suggested a setting in the rehearsal, so there are no corners",
                hint="leave --corners out, or give it more time: --rehearse 5min",
            )
    budgets = [_budget(one, " ".join(words)) for one, (words, _) in zip(found, tries, strict=True)]
    if corners:
        budgets[-1] = with_corners(budgets[-1], budgets[0], found[-1].suggestions)
    return Rehearsed(tuple(budgets), variation)


def _budget(found: Rehearsal, title: str) -> Budget:
    budget = budget_of_rehearsal(found, title)
    return _too_large(budget) if found.reached_limit else budget


def _was_interrupted(found: Rehearsal) -> bool:
    number = found.outcome.signal or (found.outcome.exit_code or 0) - 128
    return not found.was_stopped and number == signal.SIGINT


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
