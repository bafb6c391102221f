"""Bytes of stored experience, framework by framework. Exact: each is the sum of its arrays.

Sources: stable_baselines3/common/buffers.py 2.9.2, sb3_contrib/common/recurrent/buffers.py 2.9.2,
cleanrl/ppo.py, elegantrl/train/replay_buffer.py 0.3.6, ray/rllib/utils/replay_buffers 2.60.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ramledger.plan.complete_config import Job

FLOAT = 4
INT64 = 8
EMPTY_DICT = 64
# np.zeros becomes resident in steps of a huge page, or less, in every array that is filled
HUGE_PAGE_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a buffer: `rows` transitions of `row_bytes`; eager ones are touched at once."""

    account: str
    rows: int
    row_bytes: int
    formula: str
    eager: bool = False

    @property
    def total_bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class Storage:
    """A buffer: its arrays, how many transitions it takes, and what an update copies of it."""

    arrays: tuple[Array, ...]
    capacity: int
    copied_at_update_bytes: int = 0
    on_gpu: bool = False

    @property
    def total_bytes(self) -> int:
        return sum(array.total_bytes for array in self.arrays)

    def resident_bytes(self, array: Array, steps: int | None) -> int:
        """What is touched after `steps` transitions."""
        if array.eager or steps is None or steps >= self.capacity:
            return array.total_bytes
        touched = array.row_bytes * steps
        rounded = -(-touched // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        return min(rounded, array.total_bytes)


def storage_of(job: Job) -> Storage:
    """The buffer of a training."""
    framework = job.config.framework
    if job.algorithm.name == "ARS":
        return Storage((), 0)
    if job.algorithm.is_on_policy:
        if framework == "cleanrl":
            return _cleanrl_rollout(job)
        if framework == "elegantrl":
            return _elegantrl_rollout(job)
        return _rllib_batch(job) if framework == "rllib" else _sb3_rollout(job)
    if framework == "elegantrl":
        return _elegantrl_replay(job)
    if framework == "ramledger":
        return _population_replay(job)
    return _rllib_replay(job) if framework == "rllib" else _sb3_replay(job)


def _named(job: Job, prefix: str) -> Iterator[tuple[str, int, str]]:
    frames = job.config.frame_stack if job.config.replay_frames_once else 1
    for name, box in job.observation.items():
        account = f"{prefix}/{name}" if name else prefix
        formula = f"{_product(box.shape)} × {box.item_bytes} B"
        if frames > 1:
            formula += f" / {frames} frames"
        yield account, box.stored_bytes // frames, formula


def _product(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "1"


def _sb3_rollout(job: Job) -> Storage:
    rows = job.rollout_steps
    count = f"{job.n_steps:,} steps × {job.n_envs} envs"
    arrays = []
    copied = 0
    for account, row_bytes, formula in _named(job, "rollout/observations"):
        if not job.keeps_rollout_dtype:
            box = job.observation[account.removeprefix("rollout/observations").lstrip("/")]
            row_bytes, formula = box.elements * FLOAT, f"{_product(box.shape)} × 4 B (float32)"
        arrays.append(Array(account, rows, row_bytes, f"{count} × {formula}"))
        copied += rows * row_bytes
    item = job.action.item_bytes if job.keeps_rollout_dtype else FLOAT
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
    return Storage(tuple(arrays), rows, copied if job.n_envs > 1 else 0)


def _sb3_replay(job: Job) -> Storage:
    rows = max(job.buffer_size // job.n_envs, 1) * job.n_envs
    count = f"{rows:,} transitions"
    arrays = [
        Array(account, rows, row_bytes, f"{count} × {formula}")
        for account, row_bytes, formula in _named(job, "replay/observations")
    ]
    # Dict observations are always stored with their successors
    is_stored_once = job.config.optimize_memory_usage and "" in job.observation
    if not is_stored_once and not job.config.replay_frames_once:
        arrays += [
            Array(account, rows, row_bytes, f"{count} × {formula}")
            for account, row_bytes, formula in _named(job, "replay/next_observations")
        ]
    dimensions, item = job.action.stored_dimensions, job.action.item_bytes
    arrays.append(
        Array("replay/actions", rows, dimensions * item, f"{count} × {dimensions} × {item} B")
    )
    # rewards, dones, timeouts: the last is allocated whether it is used or not
    arrays.append(Array("replay/rewards", rows, 3 * FLOAT, f"{count} × 3 × 4 B"))
    if job.config.her:
        formula = f"{count} × 2 × 8 B (start and length of its episode)"
        arrays.append(Array("replay/episodes", rows, 2 * INT64, formula))
        # one dict a transition, there from the start, empty unless copy_info_dict is set
        formula = f"{count} × (8 B pointer + 64 B dict)"
        arrays.append(Array("replay/infos", rows, 8 + EMPTY_DICT, formula, eager=True))
    return Storage(tuple(arrays), rows)


def _cleanrl_rollout(job: Job) -> Storage:
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


def _elegantrl_rollout(job: Job) -> Storage:
    rows = job.rollout_steps
    width = job.observation_elements + job.action.stored_dimensions + 4
    formula = f"{job.n_steps:,} steps × {job.n_envs} envs × {width:,} × 4 B"
    array = Array("rollout/trajectory", rows, width * FLOAT, formula)
    return Storage((array,), rows, array.total_bytes, job.config.device == "cuda")


def _elegantrl_replay(job: Job) -> Storage:
    # not divided by the environments: each has a ring of buffer_size of its own
    rows = job.buffer_size * job.n_envs
    width = job.observation_elements + job.action.stored_dimensions + 2
    formula = f"{job.buffer_size:,} × {job.n_envs} envs × {width:,} × 4 B"
    array = Array("replay/transitions", rows, width * FLOAT, formula)
    return Storage((array,), rows, on_gpu=job.config.device == "cuda")


# what the driver takes more for a step of a batch, beyond its arrays: 4,000 and 6,000 measured
_RLLIB_STEP_BYTES = 6_500


def _rllib_batch(job: Job) -> Storage:
    rows = job.rollout_steps
    size = job.stored_observation_bytes
    outputs = job.action.outputs * (2 if job.action.is_continuous else 1)
    # actions, logits, log-probability, value, reward, two ends, advantage, value target
    rest = job.action.stored_dimensions * job.action.item_bytes + (outputs + 7) * FLOAT
    count = f"{rows:,} steps a batch"
    objects = _RLLIB_STEP_BYTES
    return Storage(
        (
            Array("rollout/observations", rows, size, f"{count} × {size:,} B"),
            Array("rollout/returns", rows, rest, f"{count} × {rest:,} B"),
            Array("rollout/episodes", rows, objects, f"{count} × {objects:,} B of Python lists"),
        ),
        rows,
        rows * (size + rest),
    )


# an episode in RLlib's buffers is Python lists of arrays: measured per array beyond its data
_RLLIB_ARRAY_BYTES = 112


def _rllib_replay(job: Job) -> Storage:
    rows = job.buffer_size
    size = job.stored_observation_bytes
    rest = job.action.stored_dimensions * job.action.item_bytes + 8 + 3 * _RLLIB_ARRAY_BYTES
    count = f"{rows:,} transitions"
    return Storage(
        (
            Array("replay/observations", rows, size, f"{count} × {size:,} B"),
            Array("replay/actions", rows, rest, f"{count} × {rest} B (Python objects included)"),
        ),
        rows,
    )


def _population_replay(job: Job) -> Storage:
    """Our own buffer, by its own function."""
    # numpy comes with it, and nobody else's plan needs it
    from ramledger.replay import Field, Schema, TableWindow, bytes_per_transition

    kinds: dict[str, Field | TableWindow] = {
        name: Field(box.shape, box.dtype) for name, box in job.observation.items()
    }
    if job.config.trainer.is_windowed:
        kinds = {**kinds, "market": TableWindow("market", job.config.trainer.window)}
    fields = kinds.get("", kinds)
    schema = Schema(fields, action=Field((job.action.stored_dimensions,)))
    length = job.config.episode_length
    size = round(bytes_per_transition(schema, length or float("inf")))
    rows = max(job.buffer_size, job.n_envs)
    formula = f"{rows:,} transitions × {size:,} B, observations stored once"
    return Storage((Array("replay", rows, size, formula),), rows)
