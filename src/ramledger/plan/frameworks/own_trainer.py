"""The config of `ramledger train` as a config to plan: its keys are read as plain data.

The trainer's own class needs torch and is above us; a test holds these defaults to its defaults.
"""

import csv
from collections.abc import Mapping
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.formulas.known_environments import known_environment
from ramledger.plan.sources.source_result import Reading
from ramledger.plan.training_config import config_from
from ramledger.user_files import text_lines

TRADING = "trading"
DEFAULTS: dict[str, Any] = {
    "env": TRADING, "data": "", "seed": 0, "generations": 25, "population": 16, "learners": 0,
    "episodes": 1, "validation_episodes": 2, "episode_steps": 0, "updates": 64,
    "capacity": 50_000, "shared_batch": False, "agents_per_chunk": 0, "shards": 1, "threads": 1,
    "keep": 2,
    "learning": {
        "hidden": [64, 64], "gamma": 0.99, "n_step": 1, "batch": 64, "tau": 0.005,
        "actor_lr": 1e-3, "critic_lr": 1e-3, "lr_spread": 1.0, "twin": False, "policy_delay": 1,
        "target_noise": 0.0, "action_penalty": 0.0,
    },
    "evolution": {
        "elites": 2, "tournament": 3, "crossover": 0.25, "mutation": 0.5, "strength": 0.05,
        "fraction": 0.1, "method": "scaled",
    },
    "exploration": {"noise": "gaussian", "sigma": 0.1},
    "trading": {
        "window": 32, "steps": 125, "cost": 0.0005, "slippage": 0.001, "max_weight": 1.0,
        "reward_scale": 100.0,
    },
    "market": {"rows": 1500, "assets": 4, "features": 3, "signal": 0.3, "seed": 0},
}  # fmt: skip
# cash and drawdown, beside the assets' weights
EXTRA_STATE = 2
_COLUMNS = ("date", "asset", "close")
# keys that a config of ours has as well say nothing
_TELLING = set(DEFAULTS) - {"env", "population", "seed"}
_TIME_LIMITS = {"Pendulum": 200, "MountainCarContinuous": 999, "BipedalWalker": 1600,
                "LunarLander": 1000, "LunarLanderContinuous": 1000}  # fmt: skip
_MUJOCO_LIMIT = 1000


def is_trainer(data: Any) -> bool:
    """Whether a file is the trainer's config; one key that only it has tells."""
    return isinstance(data, dict) and bool(_TELLING & set(data)) and "algorithm" not in data


def trainer_reading(data: Mapping[str, Any], path: str) -> Reading:
    """The run that such a file describes."""
    found = _checked(data, DEFAULTS, path, "")
    if found["learners"] > found["population"]:
        raise ConfigError(
            f"{path}: {found['learners']} learners of {found['population']} agents",
            hint="0 means all",
        )
    config = config_from(trainer_fields(found, _market(found, path)), path)
    places = {field: f"{path}: {key}" for field, key in _PLACES.items()}
    return Reading(config, places)


def trainer_fields(found: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a config; `shape` are those that the task decides: spaces, data, lengths."""
    learning = found["learning"]
    agents, length = found["population"], shape.get("episode_length")
    streams = agents * found["episodes"]
    fields: dict[str, Any] = {
        "framework": "ramledger",
        "algorithm": "TD3" if learning["twin"] else "DDPG",
        "env": found["env"],
        "population": agents,
        "n_envs": streams,
        "buffer_size": found["capacity"],
        "batch_size": learning["batch"],
        "net_arch": list(learning["hidden"]),
        "learning_starts": 0,
        "gradient_steps": found["updates"],
        "torch_threads": found["threads"],
        "callbacks": {"checkpoints_kept": found["keep"]},
        **{name: value for name, value in shape.items() if name != "trainer"},
    }
    if length:
        fields |= {"train_freq": length, "total_steps": found["generations"] * streams * length}
    fields["trainer"] = {
        "learners": found["learners"],
        "agents_per_chunk": found["agents_per_chunk"],
        "shared_batch": found["shared_batch"],
        "evaluations": agents * found["validation_episodes"],
        "n_step": learning["n_step"],
        **shape.get("trainer", {}),
    }
    return fields


_PLACES = {
    "buffer_size": "capacity", "batch_size": "learning.batch", "net_arch": "learning.hidden",
    "n_envs": "episodes", "population": "population", "torch_threads": "threads",
    "total_steps": "generations", "gradient_steps": "updates",
}  # fmt: skip


def market_shape(rows: int, assets: int, columns: int, window: int, steps: int) -> dict[str, Any]:
    """Fields of the trading environment: `columns` numbers of each of `assets` a row."""
    return {
        "observation": {"portfolio": f"{assets + EXTRA_STATE}:float32"},
        "action": f"box:{assets}",
        "episode_length": steps,
        "trainer": {
            "is_windowed": True, "window": window, "columns": assets * columns, "table_rows": rows,
        },
    }  # fmt: skip


def _market(found: Mapping[str, Any], path: str) -> dict[str, Any]:
    if found["env"] != TRADING:
        cut = {"episode_length": found["episode_steps"]} if found["episode_steps"] else {}
        return _registered(str(found["env"])) | cut
    rules, made = found["trading"], found["market"]
    rows, assets, columns = made["rows"], made["assets"], made["features"]
    if found["data"]:
        rows, assets, columns = _file_shape(str(found["data"]), path)
    return market_shape(rows, assets, columns, rules["window"], rules["steps"])


def _registered(env: str) -> dict[str, Any]:
    known = known_environment(env)
    root = env.rpartition("/")[2].rpartition("-v")[0]
    is_mujoco = known is not None and known.observation.get("", "").endswith("float64")
    length = _TIME_LIMITS.get(root) or (_MUJOCO_LIMIT if is_mujoco else None)
    return {"episode_length": length} if length else {}


def _file_shape(data: str, path: str) -> tuple[int, int, int]:
    """Dates, assets and numbers an asset of a CSV file; the first feature is the day's return."""
    if not data.endswith(".csv"):
        raise ConfigError(
            f"{path}: data: {data} is no CSV file, and only those are read here",
            hint=f"`ramledger train {path} --plan` reads all kinds of data",
        )
    try:
        rows = csv.DictReader(text_lines(data, ConfigError, "give a CSV file"))
        names = rows.fieldnames or []
        dates, assets = set(), set()
        for row in rows:
            dates.add(row.get("date"))
            assets.add(row.get("asset"))
    except ConfigError as error:
        raise ConfigError(f"{path}: data: {error.message}", hint=error.hint) from None
    except csv.Error as error:
        raise ConfigError(
            f"{path}: data: cannot read {data}: {error}", hint="give a CSV file"
        ) from None
    if not set(_COLUMNS) <= set(names) or not dates:
        raise ConfigError(
            f"{path}: data: {data} has not the columns {', '.join(_COLUMNS)}, or no rows",
            hint="one row a date and asset: docs/train.md",
        )
    return len(dates), len(assets), len(names) - len(_COLUMNS) + 1


def _checked(data: Mapping[str, Any], like: Mapping[str, Any], path: str, at: str) -> Any:
    """`data` on top of the defaults; a key or a type that the trainer would refuse is an error."""
    found = dict(like)
    for key, value in data.items():
        name = f"{at}{key}"
        if key not in like:
            raise ConfigError(f"{path}: unknown key {name!r}", hint="docs/train.md lists the keys")
        default = like[key]
        if isinstance(default, dict) and isinstance(value, dict):
            found[key] = _checked(value, default, path, f"{name}.")
            continue
        kinds = (int, float) if isinstance(default, float) else (type(default),)
        if not isinstance(value, kinds) or isinstance(value, bool) != isinstance(default, bool):
            raise ConfigError(
                f"{path}: {name}: expected {type(default).__name__}, got {type(value).__name__}",
                hint="docs/train.md lists the keys and their defaults",
            )
        _check_amount(path, name, value)
        found[key] = value
    return found


_MAY_BE_ZERO = ("learners", "agents_per_chunk", "seed", "market.seed")


def _check_amount(path: str, name: str, value: Any) -> None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if is_count and value < 1 and name not in _MAY_BE_ZERO:
        raise ConfigError(f"{path}: {name} is {value}", hint="it is at least 1")
