"""Optuna trials that cannot take more memory than they may: planned, held to it, measured.

A trial that cannot fit is pruned before it starts; one that runs has a process of its own, which
is ended at its limit. What it took is stored with the trial, so a study shows memory and score.
"""

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import ramledger
from ramledger.errors import ConfigError, RamledgerError
from ramledger.integrations.requirement import needs
from ramledger.integrations.trials.trial_process import Ended, run_held
from ramledger.plan.budget import Budget
from ramledger.units import format_bytes, parse_bytes

with needs("optuna", "4.0", extra="optuna"):
    import optuna

PREFIX = "ramledger:"
PLANNED, PEAK, LIMIT, ENDED = (
    PREFIX + name for name in ("planned_bytes", "peak_bytes", "limit_bytes", "ended")
)
NO_ROOM = "does not fit"
# of a trial, called in the process that has the storage
METHODS = frozenset(
    {"suggest_float", "suggest_int", "suggest_categorical", "report", "should_prune",
     "set_user_attr"}
)  # fmt: skip

Objective = Callable[[optuna.Trial], Any]  # a function of a module, or a partial of one
# the settings of a trial as `ramledger.plan` takes them, or what it answered, or bytes
Plan = Callable[[optuna.Trial], Budget | Mapping[str, Any] | int]


class HeldObjective:
    """What `held_to` makes of an objective."""

    def __init__(
        self, function: Objective, limit_bytes: int, plan: Plan | None, warm: bool
    ) -> None:
        functools.update_wrapper(self, function)
        self.held_function, self.limit_bytes = function, limit_bytes
        self.plan, self.warm = plan, warm

    def __call__(self, trial: optuna.Trial) -> Any:
        trial.set_user_attr(LIMIT, self.limit_bytes)
        if self.plan is not None:
            self._refuse_too_large(trial, self.plan)
        ended = run_held(self.held_function, trial, METHODS, self.limit_bytes, warm=self.warm)
        trial.set_user_attr(PEAK, ended.peak_bytes)
        trial.set_user_attr(ENDED, ended.how)
        return _result(ended, self.limit_bytes)

    def _refuse_too_large(self, trial: optuna.Trial, plan: Plan) -> None:
        found = plan(trial)
        if isinstance(found, Mapping):
            found = ramledger.plan(found)
        needed = found.ram.needed.expected if isinstance(found, Budget) else int(found)
        trial.set_user_attr(PLANNED, needed)
        if needed > self.limit_bytes:
            trial.set_user_attr(ENDED, NO_ROOM)
            raise optuna.TrialPruned(
                f"needs {format_bytes(needed)}, may take {format_bytes(self.limit_bytes)}"
            )


def held_to(
    limit: str | int, *, plan: Plan | None = None, warm: bool = True
) -> Callable[[Objective], HeldObjective]:
    """Decorate an objective: every trial runs in its own process and may take `limit`.

    `plan(trial)` suggests the settings first and returns them as `ramledger.plan` takes them; what
    needs more than the limit is pruned at once. Settings suggested there are the objective's own.
    Unless not `warm`, later trials are forked from a server with the libraries that the first
    one loaded; on Linux only, and never with libraries that a fork may break.
    """
    limit_bytes = parse_bytes(limit)
    if limit_bytes <= 0:
        raise ConfigError(f"a limit of {limit}", hint="held_to('2GiB')")
    return lambda function: HeldObjective(function, limit_bytes, plan, warm)


def open_study(
    path: str | os.PathLike[str],
    *,
    name: str = "search",
    direction: Literal["maximize", "minimize"] = "maximize",
    **options: Any,
) -> optuna.Study:
    """The study of that name in a journal file, made if it is not there; many may open it."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        storage = JournalStorage(JournalFileBackend(os.fspath(path)))
        study = optuna.create_study(
            storage=storage, study_name=name, direction=direction, load_if_exists=True, **options
        )
    except OSError as error:
        raise ConfigError(
            f"cannot open {os.fspath(path)}: {error.strerror}", hint="name a file that may be made"
        ) from None
    if study.direction.name.lower() != direction:
        raise ConfigError(
            f"the study {name!r} in {os.fspath(path)} has another direction",
            hint="choose another name, or the direction it was made with",
        )
    return study


@dataclass(frozen=True, slots=True)
class TrialMemory:
    """One trial: what it scored, what it was planned to take and took. `best`: on the front."""

    number: int
    ended: str
    score: float | None
    planned_bytes: int | None
    peak_bytes: int | None
    params: Mapping[str, Any]
    best: bool = False


def memory_of(study: optuna.Study) -> list[TrialMemory]:
    """Every trial that ended, in order; the front is what nothing smaller scores as well as."""
    rows = [
        TrialMemory(
            trial.number, trial.user_attrs.get(ENDED, trial.state.name.lower()),
            trial.value if trial.state is optuna.trial.TrialState.COMPLETE else None,
            trial.user_attrs.get(PLANNED), trial.user_attrs.get(PEAK), dict(trial.params),
        )
        for trial in study.get_trials(deepcopy=False)
        if trial.state.is_finished()
    ]  # fmt: skip
    front = _front(rows, study.direction is optuna.study.StudyDirection.MAXIMIZE)
    return [_marked(row) if row.number in front else row for row in rows]


def _front(rows: list[TrialMemory], larger_is_better: bool) -> set[int]:
    """Numbers of the trials that no other one beats in memory or score without losing the other."""
    scored = [
        (row.peak_bytes, -row.score if larger_is_better else row.score, row.number)
        for row in rows
        if row.score is not None and row.peak_bytes is not None
    ]
    front: set[int] = set()
    best = float("inf")
    for _, cost, number in sorted(scored):
        if cost < best:
            best = cost
            front.add(number)
    return front


def report(study: optuna.Study) -> str:
    """Memory against score, a line a trial; `*` marks the front."""
    rows = memory_of(study)
    names = sorted({name for row in rows for name in row.params})
    head = ["", "trial", "score", "planned", "peak", "ended", *names]
    lines = [head]
    for row in rows:
        lines.append(
            ["*" if row.best else "", str(row.number),
             "" if row.score is None else f"{row.score:.4g}",
             _size(row.planned_bytes), _size(row.peak_bytes), row.ended,
             *(_short(row.params.get(name, "")) for name in names)]
        )  # fmt: skip
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _result(ended: Ended, limit_bytes: int) -> Any:
    if ended.how == "finished":
        return ended.value
    if ended.how in ("over the limit", "killed") or isinstance(ended.error, MemoryError):
        raise optuna.TrialPruned(
            f"{ended.how} at {format_bytes(ended.peak_bytes)} of {format_bytes(limit_bytes)}"
        )
    if ended.error is not None:
        raise ended.error
    raise RamledgerError(
        f"the trial's process ended by itself, {ended.detail}", hint="its own output says why"
    )


def _marked(row: TrialMemory) -> TrialMemory:
    return TrialMemory(row.number, row.ended, row.score, row.planned_bytes, row.peak_bytes,
                       row.params, best=True)  # fmt: skip


def _size(size_bytes: int | None) -> str:
    return "" if size_bytes is None else format_bytes(size_bytes)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
