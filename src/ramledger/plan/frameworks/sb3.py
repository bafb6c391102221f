"""stable-baselines3 and sb3-contrib: defaults, buffers, and how their scripts are read.

Sources: constructors' defaults, stable_baselines3/common/buffers.py and
sb3_contrib/common/recurrent/buffers.py, both 2.9.2.
"""

import ast
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from ramledger.plan.budget import Check, Severity
from ramledger.plan.formulas.algorithms import DQN, PPO, SAC, TD3, Algorithm
from ramledger.plan.formulas.buffers import FLOAT, Array, Storage, observation_columns, shape_text
from ramledger.plan.frameworks.rl_zoo3 import network_fields
from ramledger.plan.job import Framework, Job
from ramledger.plan.sources.expressions import Unknown, at_end, choices_in, name_of
from ramledger.plan.sources.script_fields import Fields, whole
from ramledger.plan.sources.script_scopes import Call, Script
from ramledger.plan.sources.source_result import SearchRange
from ramledger.version_numbers import release

ALGORITHMS = (
    PPO,
    replace(PPO, name="MaskablePPO"),
    replace(PPO, name="TRPO", batch_size=128, n_epochs=10),
    replace(PPO, name="RecurrentPPO", n_steps=128, batch_size=128, is_recurrent=True),
    replace(PPO, name="A2C", n_steps=5, batch_size=0, n_epochs=1, optimizer="rmsprop"),
    DQN,
    replace(DQN, name="QRDQN", n_quantiles=200),
    SAC,
    replace(SAC, name="TQC", n_quantiles=25),
    replace(SAC, name="CrossQ", critic_arch=(1024, 1024), has_targets=False),
    TD3,
    replace(TD3, name="DDPG", n_critics=1),
    Algorithm("ARS", "linear", n_steps=1, mlp_arch=(64, 64), optimizer="sgd"),
)

_INT64 = 8
EMPTY_DICT = 64
# rollouts were stored as float32 until then (PR 2163)
_ROLLOUT_KEEPS_DTYPE = release("2.7.1")

# ---- formulas ----------------------------------------------------------------------------------


def storage(job: Job) -> Storage:
    """The buffer of a training."""
    if job.algorithm.name == "ARS":
        return Storage((), 0)
    return rollout(job) if job.algorithm.is_on_policy else replay(job)


def keeps_rollout_dtype(job: Job) -> bool:
    """Whether rollouts keep the dtype of observations; of an unknown version, as the newest."""
    version = job.config.versions.stable_baselines3
    return version is None or release(version) >= _ROLLOUT_KEEPS_DTYPE


def rollout(job: Job) -> Storage:
    """RolloutBuffer and RecurrentRolloutBuffer."""
    rows = job.rollout_steps
    count = f"{job.n_steps:,} steps × {job.n_envs} envs"
    arrays = []
    copied = 0
    for account, row_bytes, formula in observation_columns(job, "rollout/observations"):
        box = job.observation[account.removeprefix("rollout/observations").lstrip("/")]
        if job.config.rollout_frames_once:
            frames = job.config.frame_stack if box.is_image else 1
            row_bytes = box.stored_bytes // frames
            formula += f" / {frames} frames" if frames > 1 else ""
        elif not keeps_rollout_dtype(job):
            row_bytes, formula = box.elements * FLOAT, f"{shape_text(box.shape)} × 4 B (float32)"
        arrays.append(Array(account, rows, row_bytes, f"{count} × {formula}"))
        copied += rows * row_bytes
    item = job.action.item_bytes if keeps_rollout_dtype(job) else FLOAT
    action_bytes = job.action.stored_dimensions * item
    arrays.append(
        Array(
            "rollout/actions",
            rows,
            action_bytes,
            f"{count} × {job.action.stored_dimensions} × {item} B",
        )
    )
    # rewards, returns, episode starts, values, log-probabilities, advantages
    arrays.append(Array("rollout/returns", rows, 6 * FLOAT, f"{count} × 6 × 4 B"))
    copied += rows * (action_bytes + 3 * FLOAT)
    if job.modules.lstm_width:
        hidden, layers = job.config.lstm_hidden_size, job.config.n_lstm_layers
        arrays.append(
            Array(
                "rollout/lstm states",
                rows,
                4 * layers * hidden * FLOAT,
                f"4 × {count} × {layers}×{hidden} × 4 B",
            )
        )
        copied += arrays[-1].total_bytes
    # swap_and_flatten reshapes in place when there is one environment
    is_copied = job.n_envs > 1 and not job.config.rollout_frames_once
    return Storage(tuple(arrays), rows, copied if is_copied else 0)


def replay(job: Job) -> Storage:
    """ReplayBuffer, DictReplayBuffer and HerReplayBuffer."""
    rows = max(job.buffer_size // job.n_envs, 1) * job.n_envs
    count = f"{rows:,} transitions"
    arrays = [
        Array(account, rows, row_bytes, f"{count} × {formula}")
        for account, row_bytes, formula in observation_columns(job, "replay/observations")
    ]
    # Dict observations are always stored with their successors
    is_stored_once = job.config.optimize_memory_usage and "" in job.observation
    if not is_stored_once and not job.config.replay_frames_once:
        arrays += [
            Array(account, rows, row_bytes, f"{count} × {formula}")
            for account, row_bytes, formula in observation_columns(job, "replay/next_observations")
        ]
    dimensions, item = job.action.stored_dimensions, job.action.item_bytes
    arrays.append(
        Array("replay/actions", rows, dimensions * item, f"{count} × {dimensions} × {item} B")
    )
    # rewards, dones, timeouts: the last is allocated whether it is used or not
    arrays.append(Array("replay/rewards", rows, 3 * FLOAT, f"{count} × 3 × 4 B"))
    if job.config.her:
        formula = f"{count} × 2 × 8 B (start and length of its episode)"
        arrays.append(Array("replay/episodes", rows, 2 * _INT64, formula))
        # one dict a transition, there from the start, empty unless copy_info_dict is set
        formula = f"{count} × (8 B pointer + 64 B dict)"
        arrays.append(
            Array("replay/infos", rows, 8 + EMPTY_DICT, formula, eager=True, of_objects=True)
        )
    return Storage(tuple(arrays), rows)


def installed_extras() -> tuple[str, ...]:
    """Libraries that SB3 imports by itself where they are installed; nothing is imported here."""
    if find_spec("stable_baselines3") is None:
        return ()
    found = [name for name in ("cv2", "pandas", "tensorboard") if find_spec(name) is not None]
    # results_plotter imports pyplot only after pandas
    if "pandas" in found and find_spec("matplotlib") is not None:
        found.append("matplotlib")
    return tuple(found)


SB3 = Framework(
    "sb3", ALGORITHMS, import_mb=7.7, storage=storage, module="stable_baselines3",
    installed_extras=installed_extras, chooses_cnn_by_policy=True, orthogonal_weights=True,
    compares_quantiles=True,
)  # fmt: skip

# ---- scripts -----------------------------------------------------------------------------------

_COUNTS = (
    "n_steps", "batch_size", "n_epochs", "buffer_size", "learning_starts", "gradient_steps",
)  # fmt: skip
_TARGETS = ("tau", "target_update_interval", "target_kl_update")
_POLICIES = ("Mlp", "Cnn", "MultiInput")
_PACKAGES = ("stable_baselines3", "sb3_contrib")


def find_model(script: Script) -> Call | None:
    """The first constructor of an algorithm."""
    names = {entry.name for entry in ALGORITHMS}
    own = {node.name for source in (script, *script.modules) for node in source.classes()}
    for call in script.calls:
        is_own = call.last in own
        if call.last in names and (
            call.name.startswith(_PACKAGES)
            or (call.argument("policy", 0) is not None and not is_own)
        ):
            return call
    return None


def read_sb3(script: Script, call: Call, fields: Fields) -> tuple[Check, ...]:
    """Every argument of the constructor that changes a size."""
    fields.put("framework", "sb3", call.line)
    fields.put("algorithm", call.last, call.line)
    algorithm = SB3.algorithm(call.last)
    for name in _COUNTS:
        if name == "n_steps" and not algorithm.is_on_policy:
            continue
        fields.take(name, call, name)
    _policy(call, fields)
    fields.take("train_freq", call, "train_freq", None, _frequency)
    fields.take("optimize_memory_usage", call, "optimize_memory_usage", None, bool)
    fields.take("use_sde", call, "use_sde", None, bool)
    fields.take("device", call, "device", None, _device)
    _automatic_device(script, call, fields)
    _network(call, fields)
    _replay(call, fields)
    for learn in script.find("learn"):
        fields.take("total_steps", learn, "total_timesteps", 0)
        break
    return tuple(_foreign_arguments(script, call, algorithm.is_on_policy))


def _policy(call: Call, fields: Fields) -> None:
    """By name, as a string or as one of SB3's own classes."""
    node = call.argument("policy", 0)
    if node is None:
        return
    name = name_of(node).rpartition(".")[2]
    if name.startswith(_POLICIES) and name.endswith("Policy"):
        fields.put("policy", name, node.lineno)
        return
    try:
        value = call.value("policy", 0)
    except Unknown as unknown:
        value = unknown
    if isinstance(value, str):
        fields.put("policy", value, node.lineno)
    else:
        fields.miss("policy", ast.unparse(node)[:60], node.lineno)


def _frequency(value: Any) -> int:
    return whole(value[0] if isinstance(value, tuple | list) and value else value)


def _device(value: Any) -> str:
    return "cuda" if str(value).startswith("cuda") else "cpu"


def _automatic_device(script: Script, call: Call, fields: Fields) -> None:
    """SB3's default is "auto": a GPU if there is one, and --vram says that there is."""
    try:
        given = call.value("device", default="auto")
    except Unknown:
        given = "auto"
    machine = script.given.get("machine")
    if given == "auto" and isinstance(machine, dict) and machine.get("vram"):
        fields.put("device", "cuda", call.line)


def _network(call: Call, fields: Fields) -> None:
    node = call.argument("policy_kwargs")
    if node is None:
        return
    try:
        table = call.value("policy_kwargs")
    except Unknown as unknown:
        fields.miss("net_arch", unknown.what, call.line)
        return
    if isinstance(table, dict):
        missing: list[str] = []
        highest = network_fields(at_end(table, "high"), [])
        choice = next(choices_in(table), None)
        for name, value in network_fields(at_end(table, "low"), missing).items():
            fields.put(name, value, node.lineno)
            if choice is not None and highest.get(name) != value:
                where = fields.script.place(choice.line)
                found = SearchRange(name, value, highest.get(name), where, choice.line)
                fields.ranges.append(found)
        fields.unresolved += [f"{fields.script.place(node)}: {line}" for line in missing]


def _replay(call: Call, fields: Fields) -> None:
    node = call.argument("replay_buffer_class")
    if node is not None and name_of(node).rpartition(".")[2] == "HerReplayBuffer":
        fields.put("her", True, call.line)
    try:
        extra = call.value("replay_buffer_kwargs", default={})
    except Unknown:
        return
    if isinstance(extra, dict) and isinstance(extra.get("handle_timeout_termination"), bool):
        value = extra["handle_timeout_termination"]
        fields.put("handle_timeout_termination", value, call.line)


def _foreign_arguments(script: Script, call: Call, is_on_policy: bool) -> list[Check]:
    """Arguments that the algorithm does not have: targets and buffers of PPO."""
    if not is_on_policy:
        return []
    found = []
    for name in (*_TARGETS, "buffer_size"):
        node = call.argument(name)
        if isinstance(node, ast.expr):
            what = "a replay buffer" if name == "buffer_size" else "target networks"
            found.append(
                Check(
                    "no-target-network" if name != "buffer_size" else "no-replay-buffer",
                    Severity.ERROR,
                    script.place(getattr(node, "lineno", call.line)),
                    f"{call.last} has no {what}, and its constructor no {name}",
                    f"remove {name}",
                )
            )
    return found
