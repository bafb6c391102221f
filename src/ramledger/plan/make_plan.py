"""`plan(source) -> Budget`: read, predict, check, recommend. Nothing is allocated or run."""

import os
import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ramledger.errors import ConfigError
from ramledger.plan.baseline import shipped_baseline
from ramledger.plan.budget import Budget
from ramledger.plan.checks import checks_of, range_checks, worst_first
from ramledger.plan.complete_config import complete
from ramledger.plan.frameworks.own_trainer import trainer_reading
from ramledger.plan.plan_config import Config, config_from, merged
from ramledger.plan.predict import Setting, budget_of, default_setting, measured_setting
from ramledger.plan.recommend import recommendations_of, with_remedies
from ramledger.plan.sources.any_source import overview, read_source
from ramledger.plan.sources.source_result import Reading, rehearsal_of
from ramledger.trainer_config import TrainerConfig

Source = Config | TrainerConfig | Mapping[str, Any] | str | os.PathLike[str] | Reading


def plan(
    source: Source,
    *,
    setting: Setting | None = None,
    imported_bytes: int | None = None,
    apply: Collection[str] = (),
    **changes: Any,
) -> Budget:
    """What a training will need: a config, a mapping of its fields, or the path of a file.

    `changes` replace fields of the config: `plan("train.py", n_envs=8)`. `imported_bytes` is what
    a process that has imported everything was measured to take. `apply` names remedies of
    `run --apply` that are in force.
    """
    if isinstance(source, TrainerConfig):
        source, changes = trainer_reading(source, "plan()", changes), {}
    reading = _reading(source)
    if imported_bytes is not None:
        framework = reading.config.framework
        setting = measured_setting(shipped_baseline().measured(framework, imported_bytes))
    try:
        return _planned(reading, setting, changes, apply)
    except ConfigError as error:
        hint = error.hint
        if reading.source.endswith(".py"):
            known = "".join(f"{line}; " for line in reading.unresolved[:3])
            hint = f"{known}{hint}; or measure it: {rehearsal_of(reading.source)}"
        elif not reading.source or reading.source in error.message:
            raise
        is_named = reading.source in error.message
        message = error.message if is_named else f"{reading.source}: {error.message}"
        raise ConfigError(message, hint=hint) from None


def _planned(
    reading: Reading,
    setting: Setting | None,
    changes: Mapping[str, Any],
    apply: Collection[str],
) -> Budget:
    config = reading.config
    if changes:
        config = config_from(merged(msgspec.to_builtins(config), changes), "plan()")
    setting = setting or default_setting(config)
    if apply:
        config = with_remedies(config, apply, setting)
    budget = budget_of(config, setting, reading.places)
    job = complete(config, reading.places)
    checks = checks_of(job, budget, setting, reading.places)
    checks += range_checks(config, reading.ranges, setting)
    return replace(
        budget,
        checks=worst_first(reading.checks + checks),
        recommendations=recommendations_of(job, budget, setting),
        unresolved=reading.unresolved,
        assumed=(*reading.assumed, *budget.assumed),
        command=shlex.join(["python", reading.source]) if reading.source.endswith(".py") else "",
    )


def plan_each(
    path: str, given: Mapping[str, Any], algorithm: str = ""
) -> tuple[list[tuple[str, Budget]], list[tuple[str, str]]] | None:
    """Every entry of a zoo file planned, and why others were not; None for other files."""
    found = overview(path, given, algorithm)
    if found is None:
        return None
    readings, failed = found
    budgets: list[tuple[str, Budget]] = []
    for name, reading in readings:
        try:
            budgets.append((name, plan(reading)))
        except ConfigError as error:
            failed.append((name, error.message))
    return budgets, failed


def _reading(source: Any) -> Reading:
    if isinstance(source, Reading):
        return source
    if isinstance(source, Config):
        return Reading(source)
    if isinstance(source, Mapping):
        return Reading(config_from(dict(source), "plan()"))
    if isinstance(source, str | os.PathLike):
        return read_source(os.fspath(source))
    raise ConfigError(
        f"the source must be a path, a mapping or a config, got {type(source).__name__}",
        hint="ramledger.plan('train.py'), or ramledger.plan({'algorithm': 'PPO', …})",
    )
