"""RLlib in a script: `PPOConfig().environment(…).env_runners(…).training(…)`."""

import ast

from ramledger.plan.formulas.algorithms import algorithm_names
from ramledger.plan.sources.expressions import Unknown, name_of
from ramledger.plan.sources.script_fields import Fields
from ramledger.plan.sources.script_scopes import Call, Script

_CONFIGS = {f"{name}Config": name for name in algorithm_names("rllib")}
_TRAINING = {
    "train_batch_size": "n_steps", "train_batch_size_per_learner": "n_steps",
    "minibatch_size": "batch_size", "sgd_minibatch_size": "batch_size",
    "num_epochs": "n_epochs", "num_sgd_iter": "n_epochs",
}  # fmt: skip
_RUNNERS = {
    "num_env_runners": "num_env_runners", "num_rollout_workers": "num_env_runners",
    "num_envs_per_env_runner": "n_envs", "num_envs_per_worker": "n_envs",
}  # fmt: skip


def find_config(script: Script) -> Call | None:
    """The constructor of an AlgorithmConfig."""
    return next(iter(script.find(*_CONFIGS)), None)


def read_rllib(script: Script, call: Call, fields: Fields) -> None:
    """Fields from the chain of methods, wherever its parts are written."""
    algorithm = _CONFIGS[call.last]
    fields.put("framework", "rllib", call.line)
    fields.put("algorithm", algorithm, call.line)
    for part in script.calls:
        if not isinstance(part.node.func, ast.Attribute):
            continue
        method = part.node.func.attr
        if method == "environment" or (method.startswith("build") and part.argument("env")):
            _environment(part, fields)
        elif method in ("env_runners", "rollouts"):
            for name, field in _RUNNERS.items():
                fields.take(field, part, name)
        elif method == "training":
            _training(part, fields, algorithm)
        elif method in ("learners", "resources"):
            fields.take("num_learners", part, "num_learners")


def _environment(call: Call, fields: Fields) -> None:
    node = call.argument("env", 0)
    if node is None:
        return
    try:
        value = call.value("env", 0)
        if isinstance(value, str):
            fields.put("env", value, call.line)
    except Unknown as unknown:
        if name_of(node):
            fields.miss("env", unknown.what, call.line)


def _training(call: Call, fields: Fields, algorithm: str) -> None:
    is_on_policy = algorithm not in ("DQN", "SAC")
    for name, field in _TRAINING.items():
        if field == "n_steps" and not is_on_policy:
            fields.take("batch_size", call, name)
        else:
            fields.take(field, call, name)
    for name in ("model", "model_config"):
        try:
            model = call.value(name)
        except Unknown:
            continue
        hiddens = model.get("fcnet_hiddens") if isinstance(model, dict) else None
        if isinstance(hiddens, list | tuple):
            fields.put("net_arch", list(hiddens), call.line)
    try:
        replay = call.value("replay_buffer_config", default={})
        if isinstance(replay, dict) and "capacity" in replay:
            fields.put_count("buffer_size", replay["capacity"], call.line)
    except Unknown:
        fields.miss("buffer_size", "replay_buffer_config", call.line)
