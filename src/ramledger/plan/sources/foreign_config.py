"""Somebody's own YAML, TOML or JSON file: the settings that are known are found anywhere in it."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.frameworks.from_scratch import CUSTOM
from ramledger.plan.plan_config import FIELDS, config_from, merged
from ramledger.plan.sources.setting_names import field_named
from ramledger.plan.sources.source_result import Reading

_SHAPES = ("obs_shape", "observation_shape", "state_shape", "obs_dim", "state_dim", "obs_size",
           "state_size", "observation_dim", "input_dim", "input_shape")  # fmt: skip
_ACTIONS = ("n_actions", "num_actions", "action_size", "action_dim", "act_dim", "nb_actions")
_TEXTS = ("env", "algorithm", "device")
_MOST_LISTED = 30


def is_foreign(data: Any) -> bool:
    """Whether a file has keys of its own, not only a typo in ours, and settings that are known."""
    if not isinstance(data, dict):
        return False
    unknown = [str(key) for key in data if key not in (*FIELDS, "include")]
    ours = [key for key in data if key in FIELDS]
    typos = [key for key in unknown if get_close_matches(key, FIELDS, 1, 0.6)]
    if not unknown or (ours and len(typos) == len(unknown)):
        return False
    return any(_field(key.rpartition(".")[2], value)[0] for key, value in _leaves(data))


def foreign_reading(data: Mapping[str, Any], path: str, values: Mapping[str, Any]) -> Reading:
    """What is known of it; the rest is listed."""
    found: dict[str, Any] = {}
    places: dict[str, str] = {}
    left: list[str] = []
    for key, value in sorted(_leaves(data), key=lambda leaf: leaf[0].count(".")):
        field, text = _field(key.rpartition(".")[2], value)
        if not field or field in found:
            left.append(key)
            continue
        found[field] = text
        places[field] = f"{path}: {key}"
    assumed = _algorithm(found, places, path)
    found.setdefault("framework", "custom")
    unread = ", ".join(left[:_MOST_LISTED]) + (" …" if len(left) > _MOST_LISTED else "")
    unresolved = (f"{path}: not read: {unread}",) if left else ()
    config = config_from(merged(found, values), path)
    return Reading(config, places, unresolved, assumed=assumed)


def _algorithm(found: dict[str, Any], places: dict[str, str], path: str) -> tuple[str, ...]:
    try:
        found["algorithm"] = CUSTOM.algorithm(str(found.get("algorithm", ""))).name
        return ()
    except ConfigError:
        guess = "DQN" if "buffer_size" in found else "PPO"
        found["algorithm"] = guess
        places.pop("algorithm", None)
        return (f"{path}: {guess}, by its settings: --algo says otherwise",)


def _leaves(data: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _field(key: str, value: Any) -> tuple[str, Any]:
    """The field and its value, or "" where key or value is none that is known."""
    plain = key.lower()
    if plain in _SHAPES:
        shape = value if isinstance(value, list) else [value]
        if shape and all(isinstance(size, int) and size > 0 for size in shape):
            return "observation", "x".join(map(str, shape))
    if plain in _ACTIONS and isinstance(value, int) and value > 0:
        return "action", f"{'box' if plain in ('action_dim', 'act_dim') else 'discrete'}:{value}"
    field = field_named(key) or (key if key in FIELDS else "")
    if not field:
        return "", None
    if field in _TEXTS:
        if not isinstance(value, str):
            return "", None
        if field == "device":
            return field, "cuda" if value.startswith("cuda") else "cpu"
        return field, value
    number = _number(value)
    if field_named(key):
        return (field, number) if number is not None else ("", None)
    return field, value


def _number(value: Any) -> int | None:
    """1e6 is text in YAML 1.1."""
    if isinstance(value, str):
        try:
            value = float(value.replace("_", ""))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if value >= 1 else None
