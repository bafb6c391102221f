"""Training code that uses no framework: buffers and networks as they were found in it.

How such a script is read: plan/sources/script_buffers.py and script_networks.py.
"""

from dataclasses import replace

from ramledger.plan.formulas.algorithms import DQN, PPO, SAC, TD3, Algorithm
from ramledger.plan.formulas.buffers import Array, Storage
from ramledger.plan.formulas.python_objects import transition_bytes
from ramledger.plan.frameworks import cleanrl, sb3
from ramledger.plan.job import Framework, Job
from ramledger.plan.plan_config import Buffer

ALGORITHMS: tuple[Algorithm, ...] = (
    replace(PPO, n_steps=2048, batch_size=0, n_epochs=10),
    replace(PPO, name="A2C", n_steps=5, batch_size=0, n_epochs=1),
    replace(PPO, name="REINFORCE", n_steps=1000, batch_size=0, n_epochs=1),
    replace(DQN, buffer_size=0, batch_size=64, actions="any", train_freq=1),
    replace(DQN, name="AlphaZero", buffer_size=0, batch_size=64, actions="any", has_targets=False),
    replace(SAC, buffer_size=0, actions="any"),
    replace(TD3, buffer_size=0, mlp_arch=(256, 256), actions="any"),
    replace(TD3, name="DDPG", n_critics=1, buffer_size=0, mlp_arch=(256, 256), actions="any"),
)


def storage(job: Job) -> Storage:
    """The buffers that were found; of a rollout without any, the usual arrays."""
    found = [_array(job, buffer) for buffer in job.config.buffers]
    if found:
        return Storage(tuple(found), max(array.rows for array in found))
    if job.algorithm.is_on_policy:
        return cleanrl.rollout(job)
    return sb3.replay(job) if job.buffer_size else Storage((), 0)


def _array(job: Job, buffer: Buffer) -> Array:
    rows = buffer.rows or job.buffer_size or job.rollout_steps or 1
    size, text = buffer.row_bytes, "one element"
    if size is None:
        size, text = transition_bytes(job, buffer)
    source = f", {buffer.source}" if buffer.source else ""
    formula = f"{rows:,} × {size:,} B: {text}{source}"
    of_objects = buffer.row_bytes is None and buffer.held_as != "arrays"
    return Array(buffer.name, rows, size, formula, buffer.eager, of_objects)


CUSTOM = Framework(
    "custom", ALGORITHMS, import_mb=4.8, storage=storage, module="gymnasium",
    batches_are_floats=True,
)  # fmt: skip
