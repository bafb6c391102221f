"""RLlib: the dictionary of an AlgorithmConfig (`config.to_dict()`), as saved in params.json."""

from collections.abc import Mapping
from typing import Any

from ramledger.plan.sources.source_result import Reading
from ramledger.plan.training_config import config_from

_MARKS = {"num_env_runners", "num_workers", "train_batch_size", "rollout_fragment_length"}
_FIELDS = {
    "num_env_runners": "num_env_runners", "num_workers": "num_env_runners",
    "num_learners": "num_learners", "train_batch_size": "n_steps",
    "train_batch_size_per_learner": "n_steps", "minibatch_size": "batch_size",
    "sgd_minibatch_size": "batch_size", "num_epochs": "n_epochs", "num_sgd_iter": "n_epochs",
    "num_envs_per_env_runner": "n_envs", "num_envs_per_worker": "n_envs",
}  # fmt: skip


def is_rllib(data: Any) -> bool:
    """Whether plain data is a dump of an RLlib config."""
    return isinstance(data, dict) and len(_MARKS & set(data)) >= 2


def rllib_reading(data: Mapping[str, Any], path: str) -> Reading:
    """Read such a dump; its hundreds of other keys do not change a size."""
    fields, unresolved = rllib_fields(data)
    places = {name: f"{path}: {key}" for key, name in _FIELDS.items() if key in data}
    return Reading(config_from(fields, path), places, tuple(unresolved))


def rllib_fields(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Our fields from RLlib's keys."""
    fields: dict[str, Any] = {"framework": "rllib", "algorithm": _algorithm(data)}
    unresolved: list[str] = []
    for key, name in _FIELDS.items():
        value = data.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            fields.setdefault(name, value)
    if isinstance(data.get("env"), str):
        fields["env"] = data["env"]
    model = data.get("model") or data.get("model_config") or {}
    hiddens = model.get("fcnet_hiddens") if isinstance(model, dict) else None
    if isinstance(hiddens, list | tuple):
        fields["net_arch"] = list(hiddens)
    replay = data.get("replay_buffer_config")
    if isinstance(replay, dict) and isinstance(replay.get("capacity"), int):
        fields["buffer_size"] = replay["capacity"]
    off_policy = fields["algorithm"].upper() in ("DQN", "SAC")
    if off_policy and "n_steps" in fields:
        fields["batch_size"] = fields.pop("n_steps")
    for key in ("observation_space", "action_space"):
        if data.get(key) is not None and not isinstance(data[key], str):
            unresolved.append(f"{key}: give it with --obs or --action")
    return {key: value for key, value in fields.items() if value or value == 0}, unresolved


def _algorithm(data: Mapping[str, Any]) -> str:
    for key in ("algo_class", "algorithm", "run", "_algo_class"):
        value = data.get(key)
        if isinstance(value, str):
            return value.rstrip("'>").rpartition(".")[2] or value
    if "replay_buffer_config" in data:
        return "SAC" if "tau" in data and "initial_alpha" in data else "DQN"
    return "PPO"
