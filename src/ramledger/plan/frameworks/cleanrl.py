"""CleanRL's single files: defaults, buffers, and how such a script is read.

An Args class or a parser holds the settings, and the algorithm is in the same script.
Sources: the Args of each file of cleanrl 1.x, and the buffers of cleanrl/ppo.py.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ramledger.plan.formulas.algorithms import DQN, PPO, SAC, TD3
from ramledger.plan.formulas.buffers import FLOAT, Array, Storage
from ramledger.plan.frameworks import sb3
from ramledger.plan.job import Framework, Job
from ramledger.plan.sources.expressions import Unknown
from ramledger.plan.sources.script_fields import Fields, whole
from ramledger.plan.sources.script_libraries import put_library
from ramledger.plan.sources.script_scopes import Script

ALGORITHMS = (
    replace(PPO, n_steps=128, batch_size=0, n_epochs=4, cnn_arch=()),
    replace(
        DQN, batch_size=128, buffer_size=10_000, mlp_arch=(120, 84), train_freq=10,
        learning_starts=10_000,
    ),
    replace(SAC, learning_starts=5000, actions="any"),
    replace(TD3, mlp_arch=(256, 256), learning_starts=25_000),
    replace(TD3, name="DDPG", n_critics=1, mlp_arch=(256, 256), learning_starts=25_000),
    replace(DQN, name="C51", batch_size=128, buffer_size=10_000, mlp_arch=(120, 84),
            n_quantiles=101, learning_starts=10_000, train_freq=10),
)  # fmt: skip

# ---- formulas ----------------------------------------------------------------------------------


def storage(job: Job) -> Storage:
    """The buffer of a training; cleanrl_utils has a copy of stable-baselines3's ReplayBuffer."""
    return rollout(job) if job.algorithm.is_on_policy else sb3.replay(job)


def rollout(job: Job) -> Storage:
    """A rollout of float32 tensors, allocated at once."""
    rows = job.rollout_steps
    elements = job.observation_elements
    count = f"{job.n_steps:,} steps × {job.n_envs} envs"
    actions = job.action.stored_dimensions
    on_gpu = job.config.device == "cuda"
    return Storage(
        (
            Array("rollout/observations", rows, elements * FLOAT,
                  f"{count} × {elements:,} × 4 B (torch.zeros)", eager=True),
            Array("rollout/actions", rows, actions * FLOAT, f"{count} × {actions} × 4 B", True),
            # log-probabilities, rewards, dones, values
            Array("rollout/returns", rows, 4 * FLOAT, f"{count} × 4 × 4 B", True),
        ),
        rows,
        on_gpu=on_gpu,
    )  # fmt: skip


CLEANRL = Framework(
    "cleanrl", ALGORITHMS, import_mb=4.8, storage=storage, module="gymnasium",
    batches_are_floats=True,
)  # fmt: skip

# ---- scripts -----------------------------------------------------------------------------------

_COUNTS = {
    "num_steps": "n_steps", "num_envs": "n_envs", "update_epochs": "n_epochs",
    "total_timesteps": "total_steps", "buffer_size": "buffer_size",
    "learning_starts": "learning_starts", "train_frequency": "train_freq",
    "batch_size": "batch_size",
}  # fmt: skip
# the fields that only one algorithm's Args have, tried in order
_SIGNS = (
    (("num_minibatches", "clip_coef"), "PPO"),
    (("n_atoms", "v_max"), "C51"),
    (("target_network_frequency", "policy_frequency"), "SAC"),
    (("q_lr", "policy_lr"), "SAC"),
    (("alpha", "autotune"), "SAC"),
    (("policy_noise", "policy_frequency"), "TD3"),
    (("exploration_noise", "buffer_size"), "DDPG"),
    (("target_network_frequency", "buffer_size"), "DQN"),
    (("start_e", "buffer_size"), "DQN"),
    (("num_steps", "num_envs"), "PPO"),
)
_BY_NAME = ("c51", "ppo", "dqn", "sac", "td3", "ddpg")


def algorithm_of(script: Script) -> str:
    """The algorithm by the file's name and the arguments it takes; '' when it is none of them."""
    arguments = set(script.arguments)
    for signs, name in _SIGNS:
        if arguments.issuperset(signs):
            return name
    if not arguments & set(_COUNTS):
        return ""
    stem = Path(script.path).stem.lower()
    return next((name.upper() for name in _BY_NAME if name in stem), "")


def read_cleanrl(script: Script, algorithm: str, fields: Fields) -> None:
    """Fields from the arguments' defaults."""
    fields.put("framework", "cleanrl", 1)
    fields.put("algorithm", algorithm, 1)
    is_on_policy = algorithm == "PPO"
    put_library((script, *script.modules), fields)
    for name, field in _COUNTS.items():
        if name not in script.arguments or (is_on_policy and name == "batch_size"):
            continue
        value, line = script.arguments[name]
        try:
            if isinstance(value, Unknown):
                raise value
            fields.put(field, whole(value), line)
        except Unknown as unknown:
            fields.miss(field, unknown.what, line)
    if is_on_policy:
        _minibatch(script, fields)
    else:
        for call in script.find("ReplayBuffer"):
            fields.take("optimize_memory_usage", call, "optimize_memory_usage", None, bool)
            name = "handle_timeout_termination"
            fields.take(name, call, name, None, bool)
    if "cuda" in script.arguments and script.given.get("cuda") is True:
        fields.put("device", "cuda", script.arguments["cuda"][1])


def _minibatch(script: Script, fields: Fields) -> None:
    count, line = script.arguments.get("num_minibatches", (None, 0))
    steps = fields.values.get("n_steps", 128)
    envs: Any = fields.finish().get("n_envs", fields.values.get("n_envs", 1))
    if isinstance(count, int) and count > 0:
        fields.put("batch_size", max(steps * envs // count, 1), line)
