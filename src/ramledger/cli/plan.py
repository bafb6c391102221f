"""`ramledger plan SOURCE`: will it fit, what is wrong with it, what to change."""

import json as json_format
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ramledger.errors import ConfigError
from ramledger.plan.budget import Budget
from ramledger.plan.largest_fit import changed_budget, largest
from ramledger.plan.make_plan import plan as plan_source
from ramledger.plan.make_plan import plan_each
from ramledger.plan.plan_config import config_from
from ramledger.plan.predict import default_setting
from ramledger.plan.sources.any_source import read_source
from ramledger.plan.sources.command_line_values import given_values
from ramledger.plan.sources.source_result import Reading
from ramledger.remedies.catalog import parse_apply
from ramledger.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

EXIT_DOES_NOT_FIT = 3

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Many = Annotated[list[str] | None, Parameter(name="--set", negative="")]


def plan(
    source: str | None = None,
    /,
    *command: str,
    rehearse: str | None = None,
    iterations: int | None = None,
    vary: str | None = None,
    at: Annotated[list[str] | None, Parameter(negative="")] = None,
    corners: Flag = False,
    out: str | None = None,
    ram: str | None = None,
    vram: str | None = None,
    cores: int | None = None,
    set_: Many = None,
    apply: Annotated[str | None, Parameter(metavar="REMEDIES")] = None,
    obs: str | None = None,
    action: str | None = None,
    env: str = "",
    algo: str = "",
    fit: Flag = False,
    maximize: str | None = None,
    diff: str | None = None,
    probe: str | None = None,
    network: str | None = None,
    calibrate: Flag = False,
    json: Flag = False,
    verbose: Flag = False,
) -> int:
    """Predict the memory of a training before it runs. Exit code 3 when it does not fit.

    Parameters
    ----------
    source
        A training script (read, never run), a TOML, YAML or JSON config, an rl-zoo3 file or a
        dump of an RLlib config.
    command
        With --rehearse, after `--`: the command of the training.
    rehearse
        Run the command given after `--` for 60s, 2min, 3 iterations or auto (until the forecast
        is certain), within the limit of memory, and forecast the whole run from that.
    iterations
        How many iterations the rehearsed training will make, where it does not say so itself.
    vary
        Rehearse with several values, as in 'n_envs=2,4': {n_envs} in the command stands for them.
    at
        NAME=VALUE, repeatable: what it needs at a value that was not rehearsed.
    corners
        Rehearse an Optuna search twice: a trial with the least and one with the most of each range.
    out
        Keep the recording of the rehearsal in this file.
    ram
        RAM to fit into, such as 32GiB; by default this machine's or its container's.
    vram
        VRAM to fit into, such as 16GiB.
    cores
        Cores to plan for; by default this machine's.
    set_
        NAME=VALUE, repeatable: a field of the config, or a name in the script.
    apply
        Plan it as with `run --apply`, such as rollout or auto.
    obs
        The observation, such as 144x160x3:uint8.
    action
        The action space: discrete:7, box:6, multidiscrete:3,5,2 or multibinary:4.
    env
        The environment, for a zoo file and for configs without one.
    algo
        The algorithm, where the source does not name it.
    fit
        Also propose the largest values that fit.
    maximize
        The value that --fit makes as large as possible: n_envs, buffer_size, batch_size, n_steps.
    diff
        Another source, planned with the same options: what changes.
    probe
        module:function that makes one environment: build it and one policy in a subprocess, and
        measure both.
    network
        module:function or 'module:Class(4, 2)' that makes your network: sized exactly by torch,
        nothing allocated.
    calibrate
        Measure this machine's import costs once, and use them from now on.
    json
        Print one JSON document.
    verbose
        Show small accounts, too.
    """
    asked = _asked(apply, rehearse)
    if rehearse is not None:
        from ramledger.cli.rehearsal import EXIT_INTERRUPTED, budget_by_rehearsal

        words = [*([source] if source is not None else []), *command]
        rehearsed = budget_by_rehearsal(
            words, length=rehearse, ram=ram, iterations=iterations, vary=vary, corners=corners,
            at=at or [], out=out,
        )  # fmt: skip
        if rehearsed is None:
            return EXIT_INTERRUPTED
        return _print(rehearsed, {}, json=json, verbose=verbose)
    if calibrate:
        _calibrate(json)
    if calibrate and source is None:
        return 0
    given = given_values(
        set_ or [], {"ram": ram, "vram": vram, "cores": cores}, obs=obs, action=action, env=env
    )
    if probe is not None:
        from ramledger.plan.env_probe import probe_environment

        given |= probe_environment(probe)
    whole = None if env or source is None else plan_each(source, given, algo)
    if whole is not None:
        return _print_overview(whole, json)
    reading = _reading(source, given, env, algo)
    if network is not None:
        from ramledger.plan.network_probe import with_network

        reading = with_network(reading, network)
    setting = None
    if probe is not None:
        from ramledger.plan.env_probe import with_policy

        reading, setting = with_policy(reading, probe)
    budget = plan_source(reading, setting=setting, apply=asked)
    if diff is not None:
        other = plan_source(read_source(diff, given=given, env=env, algorithm=algo), apply=asked)
        return _print_difference(budget, other, json)
    solution = _solution(budget, maximize) if fit or maximize else {}
    return _print(budget, solution, json=json, verbose=verbose)


def _asked(apply: str | None, rehearse: str | None) -> Collection[str]:
    if apply is None:
        return ()
    if rehearse is not None:
        raise ConfigError(
            "--apply has no effect on a rehearsal: it measures the command as it is",
            hint="plan the script, or rehearse without --apply",
        )
    return parse_apply(apply)


def _print(
    budget: Budget, solution: dict[str, dict[str, Any]], *, json: bool, verbose: bool
) -> int:
    if json:
        document = budget.to_dict() | ({"fit": solution} if solution else {})
        print(json_format.dumps(document, indent=2))
    else:
        from ramledger.report.terminal.plan_text import print_budget

        print_budget(budget, _console(), verbose=verbose)
        for name, found in solution.items():
            print(_fit_line(name, found))
    return 0 if budget.fits else EXIT_DOES_NOT_FIT


def _console() -> "Console":
    """Imported here, so that `--json` need not wait for rich."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def _reading(source: str | None, given: dict[str, Any], env: str, algo: str) -> Reading:
    if source is None:
        own = {"algorithm": algo, **given} if algo else given
        return Reading(config_from(own, "the command line"))
    return read_source(source, given=given, env=env, algorithm=algo)


def _calibrate(json: bool) -> None:
    from ramledger.plan.baseline import calibrate

    path, baseline = calibrate()
    if json:
        return
    sb3 = format_bytes(baseline.runtime["sb3"])
    optimizer = format_bytes(baseline.optimizer_bytes)
    print(f"imports {sb3}, first optimizer {optimizer}: kept in {path}")


def _solution(budget: Budget, maximize: str | None) -> dict[str, dict[str, Any]]:
    config = config_from(dict(budget.config))
    setting = default_setting(config)
    on_policy = any(row.family == "rollout" for row in budget.rows)
    default = "n_steps" if on_policy else "buffer_size"
    names = [maximize] if maximize else ["n_envs", default, "batch_size"]
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        value = largest(config, name, setting)
        if value is None:
            found[name] = {"largest": None}
            continue
        changed = changed_budget(config, name, value, setting)
        found[name] = {"largest": value, "ram": changed.ram.to_dict()}
    return found


def _fit_line(name: str, found: dict[str, Any]) -> str:
    value = found["largest"]
    if value is None:
        return f"fit: no {name} is small enough"
    needed = format_bytes(found["ram"]["needed_bytes"])
    high = format_bytes(found["ram"]["high_bytes"])
    return f"fit: {name} up to {value:,} ({needed}, at most {high})"


def _print_difference(this: Budget, other: Budget, json: bool) -> int:
    if json:
        document = {"this": this.to_dict(), "other": other.to_dict()}
        print(json_format.dumps(document, indent=2))
    else:
        from ramledger.report.terminal.plan_text import print_comparison

        print_comparison(this, other, _console())
    return 0 if this.fits else EXIT_DOES_NOT_FIT


def _print_overview(whole: Any, json: bool) -> int:
    budgets, failed = whole
    if json:
        document = {
            "budgets": {name: budget.to_dict() for name, budget in budgets},
            "failed": dict(failed),
        }
        print(json_format.dumps(document, indent=2))
    else:
        from ramledger.report.terminal.plan_text import print_overview

        print_overview(budgets, failed, _console())
    return 0 if all(budget.fits for _, budget in budgets) else EXIT_DOES_NOT_FIT
