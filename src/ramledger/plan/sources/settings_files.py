"""Settings that a script loads from a YAML, JSON or TOML file beside it, as values."""

import ast
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.sources.data_files import SUFFIXES, read_data
from ramledger.plan.sources.expressions import Unknown, name_of, value_of
from ramledger.plan.sources.known_objects import Record

_LOADERS = ("safe_load", "full_load", "load", "loads")
_PACKAGES = ("yaml", "json", "toml", "tomllib", "tomli", "OmegaConf", "omegaconf", "ruamel")
_MAX_PARENTS = 2


def opened_file(node: ast.Call, names: Mapping[str, Any]) -> Record | None:
    """`open("config.yaml")`: which file."""
    if name_of(node.func).rpartition(".")[2] != "open" or not node.args:
        return None
    try:
        value = value_of(node.args[0], names)
    except Unknown:
        return None
    return Record(name=value) if isinstance(value, str) else None


def loaded_file(script_path: str, node: ast.Call, names: Mapping[str, Any]) -> Any:
    """`yaml.safe_load(open("config.yaml"))`; None when it is no such call or there is no file."""
    first, _, last = name_of(node.func).partition(".")
    if first not in _PACKAGES or last.rpartition(".")[2] not in _LOADERS or not node.args:
        return None
    argument = node.args[0]
    if isinstance(argument, ast.Call):
        found: Any = opened_file(argument, names)
    else:
        try:
            found = value_of(argument, names)
        except Unknown:
            return None
    name = found.get("name") if isinstance(found, Record) else found
    return settings_in(script_path, name) if isinstance(name, str) else None


def hydra_config(script_path: str, decorator: ast.Call, names: Mapping[str, Any]) -> Record | None:
    """The file that hydra composes first; what its `defaults` list names lies underneath."""
    given: dict[str, str] = {}
    for keyword in decorator.keywords:
        try:
            value = value_of(keyword.value, names)
        except Unknown:
            continue
        if keyword.arg and isinstance(value, str):
            given[keyword.arg] = value
    folder = given.get("config_path", ".")
    name = given.get("config_name", "config").removesuffix(".yaml")
    found = settings_in(script_path, f"{folder}/{name}.yaml")
    if found is None:
        return None
    under = Record()
    for group, choice in _defaults(found):
        part = settings_in(script_path, f"{folder}/{group}/{choice}.yaml" if group
                           else f"{folder}/{choice}.yaml")  # fmt: skip
        if part is not None:
            under.update({group: part} if group else part)
    return Record(under | found)


def _defaults(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    listed = settings.get("defaults")
    found: list[tuple[str, str]] = []
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, str) and entry != "_self_":
            found.append(("", entry))
        elif isinstance(entry, dict):
            found += [(str(k), str(v)) for k, v in entry.items() if isinstance(v, str)]
    return found


def settings_in(script_path: str, name: str) -> Record | None:
    """A file by the name that a script uses: relative to it, or to a folder above."""
    if Path(name).suffix.lower() not in SUFFIXES:
        return None
    folder = Path(script_path).parent
    for place in (folder, *list(folder.resolve().parents)[:_MAX_PARENTS]):
        path = place / name
        if os.path.isfile(path):
            try:
                data = read_data(str(path))
            except ConfigError:
                return None
            return as_record(data) if isinstance(data, dict) else None
    return None


def as_record(table: Mapping[Any, Any]) -> Record:
    """Nested tables, with their keys as attributes."""
    return Record({str(k): as_record(v) if isinstance(v, dict) else v for k, v in table.items()})
