"""Every kind of source: the file's suffix and its keys decide who reads it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ramledger.errors import ConfigError
from ramledger.plan.frameworks.own_trainer import file_reading, is_trainer
from ramledger.plan.frameworks.ray_rllib import is_rllib, rllib_reading
from ramledger.plan.frameworks.rl_zoo3 import is_zoo, zoo_reading
from ramledger.plan.plan_config import config_from, merged
from ramledger.plan.sources.data_files import SUFFIXES, read_data, with_includes
from ramledger.plan.sources.foreign_config import foreign_reading, is_foreign
from ramledger.plan.sources.source_result import Reading


def read_source(
    path: str,
    *,
    given: Mapping[str, Any] | None = None,
    env: str = "",
    algorithm: str = "",
) -> Reading:
    """Read a script, a config, a zoo file or an RLlib dump; `given` are the user's own values."""
    found = _read(path, dict(given or {}), env, algorithm)
    return replace(found, source=path)


def _read(path: str, values: dict[str, Any], env: str, algorithm: str) -> Reading:
    suffix = Path(path).suffix.lower()
    if algorithm and suffix not in (".yml", ".yaml"):
        values.setdefault("algorithm", algorithm)
    if suffix == ".py":
        from ramledger.plan.sources.training_script import read_script

        return read_script(path, values)
    if suffix not in SUFFIXES:
        raise ConfigError(
            f"{path}: unknown kind of file", hint="give a .py, .toml, .yaml, .yml or .json file"
        )
    data = read_data(path)
    if is_zoo(data):
        if not env:
            names = ", ".join(list(data)[:6])
            raise ConfigError(
                f"{path} has entries for {len(data)} environments",
                hint=f"choose one: --env {names}…",
            )
        return _changed(zoo_reading(data, path, env, algorithm), values)
    if is_rllib(data):
        return _changed(rllib_reading(data, path), values)
    if is_trainer(data):
        return _changed(file_reading(data, path), values)
    if is_foreign(data):
        return foreign_reading(data, path, values)
    return _own(path, values)


def overview(
    path: str, given: Mapping[str, Any], algorithm: str = ""
) -> tuple[list[tuple[str, Reading]], list[tuple[str, str]]] | None:
    """Every environment of a zoo file, and why some could not be read; None for other files."""
    if Path(path).suffix.lower() not in (".yml", ".yaml"):
        return None
    data = read_data(path)
    if not is_zoo(data):
        return None
    found: list[tuple[str, Reading]] = []
    failed: list[tuple[str, str]] = []
    for env in data:
        try:
            found.append((env, _changed(zoo_reading(data, path, env, algorithm), given)))
        except ConfigError as error:
            failed.append((env, error.message))
    return found, failed


def _own(path: str, values: Mapping[str, Any]) -> Reading:
    data = with_includes(path)
    config = config_from(merged(data, values), path)
    return Reading(config, {key: f"{path}: {key}" for key in data})


def _changed(reading: Reading, values: Mapping[str, Any]) -> Reading:
    if not values:
        return reading
    config = config_from(merged(msgspec.to_builtins(reading.config), values), "--set")
    return replace(reading, config=config)
