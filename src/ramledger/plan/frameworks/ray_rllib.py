"""RLlib: defaults, buffers, workers, and its configs: dumps of them and scripts.

Sources: AlgorithmConfig of each algorithm in the new API stack, and ray/rllib/utils/replay_buffers,
ray 2.60.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ramledger.plan.budget import Row, Span, When, Where
from ramledger.plan.formulas.algorithms import DQN, PPO, SAC
from ramledger.plan.formulas.buffers import FLOAT, Array, Storage
from ramledger.plan.formulas.process_costs import MB, Workers
from ramledger.plan.job import Framework, Job
from ramledger.plan.plan_config import config_from
from ramledger.plan.sources.expressions import Unknown, name_of
from ramledger.plan.sources.script_fields import Fields
from ramledger.plan.sources.script_scopes import Call, Script
from ramledger.plan.sources.source_result import Reading

ALGORITHMS = (
    replace(PPO, n_steps=4000, batch_size=128, n_epochs=30, mlp_arch=(256, 256)),
    replace(PPO, name="APPO", n_steps=500, batch_size=0, n_epochs=1, mlp_arch=(256, 256)),
    replace(PPO, name="IMPALA", n_steps=500, batch_size=0, n_epochs=1, mlp_arch=(256, 256)),
    replace(DQN, buffer_size=50_000, mlp_arch=(256, 256), learning_starts=1000),
    replace(SAC, buffer_size=1_000_000, learning_starts=1500),
)

# its daemons and idle workers, and what an env runner adds (PPO on CartPole, 0 and 2 runners, PSS
# of the tree beyond the RSS of the driver)
_RAY_MB, _RUNNER_MB = 310.0, 240.0
# the driver of DQN beyond that of PPO, after 1,000 steps; one run
_OFF_POLICY_MB = 60.0

# ---- formulas ----------------------------------------------------------------------------------


def storage(job: Job) -> Storage:
    """The batch of an on-policy iteration, or the replay buffer."""
    return _batch(job) if job.algorithm.is_on_policy else _replay(job)


# what the driver takes more for a step of a batch, beyond its arrays: 4,000 and 6,000 measured
_STEP_BYTES = 6_500


def _batch(job: Job) -> Storage:
    rows = job.rollout_steps
    size = job.stored_observation_bytes
    outputs = job.action.outputs * (2 if job.action.is_continuous else 1)
    # actions, logits, log-probability, value, reward, two ends, advantage, value target
    rest = job.action.stored_dimensions * job.action.item_bytes + (outputs + 7) * FLOAT
    count = f"{rows:,} steps a batch"
    objects = _STEP_BYTES
    return Storage(
        (
            Array("rollout/observations", rows, size, f"{count} × {size:,} B", of_objects=True),
            Array("rollout/returns", rows, rest, f"{count} × {rest:,} B", of_objects=True),
            Array(
                "rollout/episodes",
                rows,
                objects,
                f"{count} × {objects:,} B of Python lists",
                of_objects=True,
            ),
        ),
        rows,
        rows * (size + rest),
    )


# an episode in RLlib's buffers is Python lists of arrays: measured per array beyond its data
_ARRAY_BYTES = 112


def _replay(job: Job) -> Storage:
    rows = job.buffer_size
    size = job.stored_observation_bytes
    rest = job.action.stored_dimensions * job.action.item_bytes + 8 + 3 * _ARRAY_BYTES
    count = f"{rows:,} transitions"
    return Storage(
        (
            Array("replay/observations", rows, size, f"{count} × {size:,} B", of_objects=True),
            Array(
                "replay/actions",
                rows,
                rest,
                f"{count} × {rest} B (Python objects included)",
                of_objects=True,
            ),
        ),
        rows,
    )


def _extra_imports(job: Job) -> dict[str, int]:
    return {} if job.algorithm.is_on_policy else {"off-policy learner": round(_OFF_POLICY_MB * MB)}


def _workers(job: Job, child_bytes: int) -> Workers:
    config = job.config
    count = config.num_env_runners + config.num_learners
    each = round(_RUNNER_MB * MB) + job.env_bytes * job.n_envs + 4 * job.modules.total
    once = round(_RAY_MB * MB)
    return Workers(
        count,
        Span.around(once + count * each, 0.7, 1.5),
        f"ray {once:,} B + {count} runners and learners × {each:,} B",
    )


def _object_store(job: Job, storage: Storage) -> Iterator[Row]:
    batch = storage.total_bytes if job.algorithm.is_on_policy else 0
    weights = job.modules.total * FLOAT
    formula = f"batch {batch:,} B + 2 × weights {weights:,} B"
    if job.config.object_store_memory is not None:
        formula += f"; limit {job.config.object_store_memory}"
    span = Span.around(batch + 2 * weights, 0.5, 2.0)
    yield Row("shared memory/object store", span, formula, When.FILLED, Where.WORKERS)


RLLIB = Framework(
    "rllib", ALGORITHMS, import_mb=188.0, storage=storage, module="ray.rllib",
    extra_imports=_extra_imports, workers=_workers, worker_rows=_object_store,
    n_steps_of_all_envs=True, envs_in_main_process=False,
)  # fmt: skip

# ---- dumps: the dictionary of an AlgorithmConfig (`config.to_dict()`), as saved in params.json ---

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
    off_policy = fields["algorithm"].upper() in _OFF_POLICY
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


# ---- scripts: `PPOConfig().environment(…).env_runners(…).training(…)` ---------------------------

_OFF_POLICY = ("DQN", "SAC")
_CONFIGS = {f"{name}Config": name for name in (entry.name for entry in ALGORITHMS)}
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
    is_on_policy = algorithm not in _OFF_POLICY
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
