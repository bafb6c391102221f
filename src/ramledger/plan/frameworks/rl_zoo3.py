"""rl-zoo3 hyperparameter files: one entry an environment, SB3's names, Python in strings."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.formulas.known_environments import is_atari, known_environment
from ramledger.plan.formulas.spaces import parse_action
from ramledger.plan.plan_config import config_from
from ramledger.plan.sources.expressions import Unknown, is_known, parsed, value_of
from ramledger.plan.sources.source_result import Reading

_MARKS = {"n_timesteps", "policy", "n_envs", "learning_rate"}
_PLAIN = (
    "n_steps", "batch_size", "n_epochs", "buffer_size", "learning_starts", "gradient_steps",
    "n_envs", "use_sde", "optimize_memory_usage", "n_critics",
)  # fmt: skip
# from policy_kwargs
_NETWORK = (
    "net_arch", "n_critics", "n_quantiles", "lstm_hidden_size", "n_lstm_layers",
    "enable_critic_lstm", "shared_lstm", "share_features_extractor", "normalize_images",
)  # fmt: skip
_ALGORITHMS = {
    "ppo": "PPO", "ppo_lstm": "RecurrentPPO", "a2c": "A2C", "dqn": "DQN", "qrdqn": "QRDQN",
    "sac": "SAC", "td3": "TD3", "ddpg": "DDPG", "tqc": "TQC", "trpo": "TRPO", "ars": "ARS",
    "crossq": "CrossQ", "her": "SAC", "ppo_mask": "MaskablePPO",
}  # fmt: skip


def is_zoo(data: Any) -> bool:
    """Whether plain data looks like a zoo file: every entry a table of hyperparameters."""
    if not isinstance(data, dict) or not data:
        return False
    entries = [value for value in data.values() if isinstance(value, dict)]
    return len(entries) == len(data) and all(_MARKS & set(entry) for entry in entries)


def zoo_reading(data: Mapping[str, Any], path: str, env: str, algorithm: str = "") -> Reading:
    """The entry of one environment."""
    entry = data.get(env)
    if entry is None and is_atari(env):
        entry = data.get("atari")
    if not isinstance(entry, dict):
        known = ", ".join(list(data)[:8])
        raise ConfigError(f"{path}: no entry for {env!r}", hint=f"--env is one of {known}…")
    name = algorithm or _ALGORITHMS.get(Path(path).stem.lower().replace("-", "_"), "")
    if not name:
        raise ConfigError(
            f"{path}: the algorithm is not known",
            hint="--algo PPO, or name the file ppo.yml",
        )
    fields, unresolved = _fields(entry, env, name)
    config = config_from(fields, f"{path}: {env}")
    places = dict.fromkeys(fields, f"{path}: {env}")
    return Reading(config, places, tuple(unresolved))


def _fields(entry: Mapping[str, Any], env: str, algorithm: str) -> tuple[dict[str, Any], list[str]]:
    unresolved: list[str] = []
    fields: dict[str, Any] = {"framework": "sb3", "algorithm": algorithm}
    if isinstance(entry.get("model_class"), str):
        fields["algorithm"] = _ALGORITHMS.get(entry["model_class"], entry["model_class"])
    fields |= _environment(entry, env, unresolved)
    for name in (*_PLAIN, "n_timesteps"):
        if entry.get(name) is not None:
            field = "total_steps" if name == "n_timesteps" else name
            fields[field] = _number(_value(entry[name], name, unresolved))
    frequency = _value(entry.get("train_freq"), "train_freq", unresolved)
    frequency = frequency[0] if isinstance(frequency, list | tuple) and frequency else frequency
    if isinstance(frequency, int) and frequency > 0:
        fields["train_freq"] = frequency
    network = _value(entry.get("policy_kwargs"), "policy_kwargs", unresolved)
    if isinstance(network, dict):
        fields.update(network_fields(network, unresolved))
    replay = _value(entry.get("replay_buffer_kwargs"), "replay_buffer_kwargs", unresolved)
    if isinstance(replay, dict) and isinstance(replay.get("handle_timeout_termination"), bool):
        fields["handle_timeout_termination"] = replay["handle_timeout_termination"]
    fields["her"] = "Her" in str(entry.get("replay_buffer_class", ""))
    return {key: value for key, value in fields.items() if value is not None}, unresolved


def _environment(entry: Mapping[str, Any], env: str, unresolved: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"env": "PongNoFrameskip-v4" if env == "atari" else env}
    boxes, hidden = _observation_after(entry, fields["env"])
    if hidden:
        fields["env"] = ""
        unresolved.append(f"observation: {hidden} decides it")
    elif boxes is not None:
        fields["observation"] = boxes.get("", boxes)
    if isinstance(entry.get("policy"), str):
        fields["policy"] = entry["policy"]
    if isinstance(entry.get("frame_stack"), int):
        fields["frame_stack"] = entry["frame_stack"]
    return fields


def _observation_after(entry: Mapping[str, Any], env: str) -> tuple[dict[str, str] | None, str]:
    """The observation behind an entry's wrappers, and the wrapper that leaves it unknown."""
    known = known_environment(env)
    boxes = dict(known.observation) if known else {}
    for name, arguments in _wrappers(entry.get("env_wrapper")):
        if name.endswith("AutoencoderWrapper"):
            return None, name
        if boxes and not is_atari(env):
            key = "" if "" in boxes else "observation"
            boxes[key] = _changed(boxes[key], name, arguments, known.action if known else "")
    return (boxes or None), ""


def _wrappers(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item, {}
        elif isinstance(item, dict):
            for name, arguments in item.items():
                yield str(name), arguments if isinstance(arguments, dict) else {}


def _changed(text: str, name: str, arguments: Mapping[str, Any], action: str) -> str:
    shape, _, dtype = text.partition(":")
    sizes = shape.split("x")
    if name.endswith("ResizeObservation") and len(sizes) == 3:
        wanted = arguments.get("shape")
        if isinstance(wanted, list) and len(wanted) == 2:
            sizes = [str(wanted[0]), str(wanted[1]), sizes[2]]
    elif name.lower().endswith("grayscaleobservation") and len(sizes) == 3:
        sizes = [*sizes[:2], "1"]
    elif name.endswith("TimeFeatureWrapper") and len(sizes) == 1:
        sizes = [str(int(sizes[0]) + 1)]
    elif name.endswith("HistoryWrapper") and len(sizes) == 1:
        horizon = arguments.get("horizon", 2)
        width = int(sizes[0]) + math.prod(parse_action(action).sizes)
        sizes = [str(width * horizon if isinstance(horizon, int) else width)]
    else:
        return text
    return "x".join(sizes) + (f":{dtype}" if dtype else "")


def network_fields(network: Mapping[str, Any], unresolved: list[str]) -> dict[str, Any]:
    """What `policy_kwargs` say about the networks' sizes."""
    fields: dict[str, Any] = {}
    for name in _NETWORK:
        value = network.get(name)
        if not is_known(value):
            what = value.what if isinstance(value, Unknown) else "not a plain value"
            unresolved.append(f"policy_kwargs {name}: {what}")
        elif value is not None:
            fields[name] = value
    if isinstance(fields.get("net_arch"), list | tuple):
        fields["net_arch"] = _flat_arch(list(fields["net_arch"]))
    features = network.get("features_extractor_kwargs")
    if isinstance(features, dict) and isinstance(features.get("features_dim"), int):
        fields["features_dim"] = features["features_dim"]
    if "features_extractor_class" in network:
        unresolved.append("policy_kwargs: a features extractor of your own is not sized")
    return fields


def _flat_arch(arch: list[Any]) -> Any:
    """[dict(pi=[64], vf=[64])] is the old way to write dict(pi=[64], vf=[64])."""
    if len(arch) == 1 and isinstance(arch[0], dict):
        return arch[0]
    return [width for width in arch if isinstance(width, int)]


def _value(value: Any, name: str, unresolved: list[str]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return value_of(parsed(value))
    except Unknown as unknown:
        unresolved.append(f"{name}: {unknown.what}")
        return None


def _number(value: Any) -> Any:
    """1e6 is a whole number of steps."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
