"""TOML, YAML and JSON as plain data, safely: bounded size, depth and expansion; nothing runs."""

import json
import os
import re
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ramledger import user_files
from ramledger.errors import ConfigError
from ramledger.plan.plan_config import merged

MAX_FILE_BYTES = 4 << 20
MAX_TOML_BYTES = 256 << 10  # its parser and YAML's are written in Python
MAX_YAML_BYTES = 256 << 10
MAX_YAML_NODES = 20_000
MAX_SCRIPT_WORDS = 100_000  # names, numbers and signs: a tree of them takes some 600 B each
MAX_VALUES = 200_000
MAX_DEPTH = 50
MAX_INCLUDES = 100
MAX_BITS = 128
_WORD = re.compile(r"\w+|[^\w\s]")
# a.b.c: TOML's parser copies the key so far for every part of it
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){51}""")
SUFFIXES = (".toml", ".yaml", ".yml", ".json")
_YAML = "tag:yaml.org,2002:"
_SCALARS = ("str", "int", "float", "bool", "null", "timestamp", "binary", "merge", "value")
_YAML_TAGS = {
    "scalar": {_YAML + name for name in _SCALARS},
    "sequence": {_YAML + "seq"},
    "mapping": {_YAML + "map"},
}


def read_text(path: str) -> str:
    """The text of a file within the limit for its kind."""
    hint = "give a script, a config or a zoo file"
    most = {".toml": MAX_TOML_BYTES, ".yaml": MAX_YAML_BYTES, ".yml": MAX_YAML_BYTES}
    limit = most.get(Path(path).suffix.lower(), MAX_FILE_BYTES)
    return user_files.read_text(path, limit, ConfigError, hint, "a config")


def read_script_text(path: str) -> str:
    """The text of a script that is small enough for its tree to fit into memory."""
    text = read_text(path)
    if len(text) > MAX_SCRIPT_WORDS and any(
        islice(_WORD.finditer(text), MAX_SCRIPT_WORDS, MAX_SCRIPT_WORDS + 1)
    ):
        raise ConfigError(
            f"{path}: a script must have at most {MAX_SCRIPT_WORDS:,} words and signs",
            hint="give the script that starts the training",
        )
    return text


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
    if _LONG_KEY.search(text):
        raise _too_deep(path)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}", hint="it is not valid TOML") from None
    except ValueError:  # a number with thousands of digits
        raise _too_large(path) from None
    except RecursionError:
        raise _too_deep(path) from None
    return _bounded(found, path)


def _json(text: str, path: str) -> Any:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}:{error.lineno}: {error.msg}", hint="it is not valid JSON"
        ) from None
    except ValueError:
        raise _too_large(path) from None
    except RecursionError:
        raise _too_deep(path) from None
    return _bounded(found, path)


def _too_deep(path: str) -> ConfigError:
    return ConfigError(f"{path}: nested too deeply", hint=f"at most {MAX_DEPTH} levels are read")


def _too_large(path: str) -> ConfigError:
    return ConfigError(f"{path}: a number is too large", hint="write numbers of at most 38 digits")


def _bounded(data: Any, path: str) -> Any:
    pending: list[tuple[Any, int]] = [(data, 0)]
    seen = 0
    while pending:
        value, depth = pending.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise _too_deep(path)
        if seen > MAX_VALUES:
            raise _too_many(path, MAX_VALUES)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise _too_large(path)
        children = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            pending += [(child, depth + 1) for child in children]
    return data


def _too_many(path: str, most: int) -> ConfigError:
    return ConfigError(f"{path}: more than {most:,} values", hint="does an anchor contain itself?")


def _yaml(text: str, path: str) -> Any:
    """What `yaml.safe_load` gives, in its two steps, with our bounds between them."""
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            f"{path}: reading YAML needs PyYAML", hint="pip install 'ramledger[yaml]'"
        ) from None
    try:
        loader = yaml.SafeLoader(text)
        _limit_nodes(loader, path)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_nodes(node, path)
        _name_bad_scalars(loader, path)
        return _bounded(loader.construct_document(node), path)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(
            f"{path}:{line}: {error.problem or 'not valid YAML'}", hint="it is not valid YAML"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {error}", hint="it is not valid YAML") from None
    except RecursionError:
        raise _too_deep(path) from None


def _limit_nodes(loader: Any, path: str) -> None:
    """Make a loader stop at the first node too many; composing resolves no tag."""
    compose, left = loader.compose_node, iter(range(MAX_YAML_NODES))

    def counted(parent: Any, index: Any) -> Any:
        if next(left, None) is None:
            raise _too_many(path, MAX_YAML_NODES)
        return compose(parent, index)

    loader.compose_node = counted


def _check_nodes(root: Any, path: str) -> None:
    """Refuse foreign tags and documents that aliases blow up: every expansion counts.

    Keys become text, as they are in TOML and JSON.
    """
    pending: list[tuple[Any, int]] = [(root, 0)]
    seen = 0
    while pending:
        node, depth = pending.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise _too_many(path, MAX_VALUES)
        if depth > MAX_DEPTH:
            raise _too_deep(path)
        if node.tag not in _YAML_TAGS[node.id]:
            raise ConfigError(
                f"{path}:{node.start_mark.line + 1}: the tag {node.tag!r} is not read",
                hint="write plain values; --probe 'module:make_env' runs your code on purpose",
            )
        if node.id == "mapping":
            node.value = [(_text_key(key, path), value) for key, value in node.value]
            pending += [(value, depth + 1) for _, value in node.value]
        elif node.id == "sequence":
            pending += [(value, depth + 1) for value in node.value]


def _text_key(key: Any, path: str) -> Any:
    """The same key as text; `<<` stays what it is."""
    if key.id != "scalar":
        raise ConfigError(
            f"{path}:{key.start_mark.line + 1}: a key must be a plain word", hint="write key: value"
        )
    if key.tag == _YAML + "merge":
        return key
    return type(key)(_YAML + "str", key.value, key.start_mark, key.end_mark)


def _name_bad_scalars(loader: Any, path: str) -> None:
    """Have the loader say where a scalar is not what its tag says: 2001-99-99, !!bool maybe."""
    from yaml import YAMLError

    construct = loader.construct_object

    def named(node: Any, deep: bool = False) -> Any:
        try:
            return construct(node, deep)
        except (ConfigError, YAMLError, RecursionError):
            raise
        except Exception:  # its constructors check nothing
            kind = node.tag.rpartition(":")[2]
            raise ConfigError(
                f"{path}:{node.start_mark.line + 1}: not a valid {kind}: {str(node.value)[:40]!r}",
                hint="put quotes around a text",
            ) from None

    loader.construct_object = named


def with_includes(path: str) -> dict[str, Any]:
    """Our own config, on top of the files that its `include` names."""
    return _included(path, (), iter(range(MAX_INCLUDES)))


def _included(path: str, above: tuple[str, ...], left: Iterator[int]) -> dict[str, Any]:
    if next(left, None) is None:
        raise ConfigError(
            f"{path}: includes must name at most {MAX_INCLUDES} files",
            hint="include fewer files",
        )
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
        under = merged(under, _included(str(Path(path).parent / name), (*above, real), left))
    return merged(under, data)


def _include_names(value: Any, path: str) -> Iterator[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}: include: expected file names", hint='include = "base.toml"')
    yield from names
