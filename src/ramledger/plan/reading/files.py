"""TOML, YAML and JSON as plain data, safely: bounded size, depth and expansion; nothing runs."""

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ramledger import user_files
from ramledger.errors import ConfigError
from ramledger.plan.config import merged

MAX_FILE_BYTES = 4 << 20
MAX_VALUES = 200_000
MAX_DEPTH = 50
SUFFIXES = (".toml", ".yaml", ".yml", ".json")


def read_text(path: str) -> str:
    """The text of a file of reasonable size."""
    hint = "give a script, a config or a zoo file"
    return user_files.read_text(path, MAX_FILE_BYTES, ConfigError, hint, "a config")


def read_data(path: str) -> Any:
    """Plain data from a TOML, YAML or JSON file."""
    text = read_text(path)
    suffix = Path(path).suffix.lower()
    if suffix == ".toml":
        return _toml(text, path)
    if suffix in (".yaml", ".yml"):
        return _yaml(text, path)
    if suffix == ".json":
        return _json(text, path)
    raise ConfigError(
        f"{path}: unknown kind of file", hint="give a .py, .toml, .yaml, .yml or .json file"
    )


def _toml(text: str, path: str) -> Any:
    try:
        return _bounded(tomllib.loads(text), path)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}", hint="it is not valid TOML") from None
    except RecursionError:
        raise _too_deep(path) from None


def _json(text: str, path: str) -> Any:
    try:
        return _bounded(json.loads(text), path)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}:{error.lineno}: {error.msg}", hint="it is not valid JSON"
        ) from None
    except RecursionError:
        raise _too_deep(path) from None


def _too_deep(path: str) -> ConfigError:
    return ConfigError(f"{path}: nested too deeply", hint=f"at most {MAX_DEPTH} levels are read")


def _bounded(data: Any, path: str) -> Any:
    pending: list[tuple[Any, int]] = [(data, 0)]
    seen = 0
    while pending:
        value, depth = pending.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise _too_deep(path)
        if seen > MAX_VALUES:
            raise _too_many(path)
        children = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            pending += [(child, depth + 1) for child in children]
    return data


def _too_many(path: str) -> ConfigError:
    return ConfigError(
        f"{path}: more than {MAX_VALUES:,} values", hint="an anchor that repeats itself?"
    )


def _yaml(text: str, path: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            f"{path}: reading YAML needs PyYAML", hint="pip install 'ramledger[yaml]'"
        ) from None
    try:
        # composing resolves no tag and builds no object; aliases stay shared nodes
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if node is None else _YamlTree(path).plain(node, 0)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(
            f"{path}:{line}: {error.problem or 'not valid YAML'}", hint="it is not valid YAML"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {error}", hint="it is not valid YAML") from None
    except RecursionError:
        raise _too_deep(path) from None


class _YamlTree:
    """Plain data from a composed tree; every expansion of an alias counts (the billion laughs)."""

    def __init__(self, path: str) -> None:
        from yaml import SafeLoader

        self._path = path
        self._left = MAX_VALUES
        self._scalars = SafeLoader("")

    def plain(self, node: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _too_many(self._path)
        if depth > MAX_DEPTH:
            raise _too_deep(self._path)
        if not node.tag.startswith("tag:yaml.org,2002:") or "python" in node.tag:
            raise ConfigError(
                f"{self._path}:{node.start_mark.line + 1}: the tag {node.tag!r} would run code",
                hint="write plain values; --probe 'module:make_env' runs your code on purpose",
            )
        if node.id == "sequence":
            return [self.plain(child, depth + 1) for child in node.value]
        if node.id == "mapping":
            return self._mapping(node, depth)
        return self._scalars.construct_object(node)

    def _mapping(self, node: Any, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        inherited: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                sources = value.value if value.id == "sequence" else [value]
                for source in reversed(sources):
                    found = self.plain(source, depth + 1)
                    if isinstance(found, dict):
                        inherited.update(found)
            elif key.id != "scalar":
                raise ConfigError(
                    f"{self._path}:{key.start_mark.line + 1}: a key must be a plain word",
                    hint="write key: value",
                )
            else:
                own[str(key.value)] = self.plain(value, depth + 1)
        return {**inherited, **own}


def with_includes(path: str) -> dict[str, Any]:
    """Our own config, with what its `include` names underneath it."""
    return _included(path, ())


def _included(path: str, above: tuple[str, ...]) -> dict[str, Any]:
    real = os.path.realpath(path)
    if real in above:
        chain = " > ".join(os.path.basename(part) for part in (*above, real))
        raise ConfigError(f"{path}: includes itself ({chain})", hint="remove one include")
    if len(above) >= MAX_DEPTH:
        raise _too_deep(path)
    data = read_data(path)
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}: expected a table, got {type(data).__name__}", hint='algorithm = "PPO"'
        )
    under: dict[str, Any] = {}
    for name in _include_names(data.pop("include", []), path):
        under = merged(under, _included(str(Path(path).parent / name), (*above, real)))
    return merged(under, data)


def _include_names(value: Any, path: str) -> Iterator[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}: include: expected file names", hint='include = "base.toml"')
    yield from names
