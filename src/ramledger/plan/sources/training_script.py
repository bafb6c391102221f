"""A training script as a config: read, never run. Which framework it uses decides the reader."""

import ast
from collections.abc import Mapping
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.budget import Check
from ramledger.plan.formulas.process_costs import IMPORT_MB
from ramledger.plan.frameworks.cleanrl import algorithm_of, read_cleanrl
from ramledger.plan.frameworks.elegantrl import find_config as find_elegantrl
from ramledger.plan.frameworks.elegantrl import read_elegantrl
from ramledger.plan.frameworks.ray_rllib import find_config as find_rllib
from ramledger.plan.frameworks.ray_rllib import read_rllib
from ramledger.plan.frameworks.sb3 import find_model, read_sb3
from ramledger.plan.plan_config import FIELDS, config_from
from ramledger.plan.sources.from_scratch_script import read_from_scratch
from ramledger.plan.sources.script_callbacks import read_callbacks
from ramledger.plan.sources.script_envs import read_environments
from ramledger.plan.sources.script_fields import Fields
from ramledger.plan.sources.script_modules import load_script
from ramledger.plan.sources.script_processes import not_counted
from ramledger.plan.sources.script_scopes import Call, Script
from ramledger.plan.sources.source_result import Reading, rehearsal_of


def read_script(path: str, given: Mapping[str, Any] | None = None) -> Reading:
    """Read one script; `given` are values for its names and for fields of the config."""
    try:
        return _read(path, given or {})
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply", hint="simplify it") from None


def _read(path: str, given: Mapping[str, Any]) -> Reading:
    script = load_script(path, given)
    fields = Fields(script)
    read_environments(script, fields)
    checks = _read_framework(script, fields)
    checks += read_callbacks(script, fields)
    for call in script.find("set_num_threads"):
        fields.take("torch_threads", call, "int", 0)
    fields.assumed += not_counted(script)
    extra = sorted(script.imports & set(IMPORT_MB))
    if extra:
        fields.put("imports", [*fields.values.get("imports", ()), *extra], 1)
    _refuse_unused(script)
    if "algorithm" not in fields.values and "algorithm" not in script.given:
        raise ConfigError(
            f"{path}: the algorithm is known only when the script runs",
            hint="--set algorithm=PPO",
        )
    config = config_from(fields.finish(), path)
    return Reading(
        config,
        fields.places,
        tuple(dict.fromkeys(fields.unresolved)),
        checks,
        tuple(sorted(fields.ranges, key=lambda found: found.line)),
        tuple(fields.resolved),
        tuple(fields.assumed),
    )


def _read_framework(script: Script, fields: Fields) -> tuple[Check, ...]:
    for source in (script, *script.modules):
        model = find_model(source)
        if model is not None:
            return _read_model(source, model, fields)
    rllib = find_rllib(script)
    if rllib is not None:
        read_rllib(script, rllib, fields)
        return ()
    elegant = find_elegantrl(script)
    if elegant is not None:
        read_elegantrl(script, elegant, fields)
        return ()
    algorithm = algorithm_of(script)
    if algorithm:
        read_cleanrl(script, algorithm, fields)
        return ()
    if read_from_scratch(script, fields) or "algorithm" in script.given:
        return ()
    raise ConfigError(
        f"{script.path}: no training was recognized",
        hint="no framework that is read, no buffer and no network was found: write a config "
        f"(docs/plan.md), or measure it: {rehearsal_of(script.path)}",
    )


def _read_model(source: Script, model: Call, fields: Fields) -> tuple[Check, ...]:
    """A model of stable-baselines3, in the script or in a module of its own."""
    main, fields.script = fields.script, source
    if source is not main:
        read_environments(source, fields)
    checks = read_sb3(source, model, fields)
    fields.script = main
    if "total_steps" not in fields.values:
        for learn in main.find("learn"):
            fields.take("total_steps", learn, "total_timesteps", 0)
    return checks


def _refuse_unused(script: Script) -> None:
    """Refuse a name that neither the script nor a config has: it is a typo."""
    known = {*FIELDS, *script.arguments}
    trees = [source.tree for source in (script, *script.modules)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Name):
            known.add(node.id)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.Attribute):
            known.add(node.attr)
    for name in script.given:
        if name not in known:
            raise ConfigError(
                f"--set {name}: neither a name in {script.path} nor a field of a config",
                hint="spell names as in the script",
            )
