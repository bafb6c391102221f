"""`ramledger train`: a population as stacked tensors. Its rows, its buffer, and its config.

`ramledger.train` asks for these very rows. Measured on the machine of docs/accuracy-plan.md.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.budget import Row, Span, When, Where
from ramledger.plan.formulas.algorithms import TD3
from ramledger.plan.formulas.buffers import FLOAT, Array, Storage
from ramledger.plan.formulas.known_environments import known_environment
from ramledger.plan.formulas.networks import Extractor
from ramledger.plan.formulas.process_costs import MB
from ramledger.plan.formulas.spaces import Observation
from ramledger.plan.formulas.update_memory import Update, heap
from ramledger.plan.job import Framework, Job
from ramledger.plan.plan_config import Config, config_from, merged
from ramledger.plan.sources.source_result import Reading
from ramledger.trainer_config import (
    ASSET,
    CLOSE,
    DATE,
    EXTRA_STATE,
    FIELDS,
    TRADING,
    TrainerConfig,
    checked,
)
from ramledger.user_files import text_lines

_DEFAULTS = TrainerConfig()
_AGENT = replace(
    TD3, mlp_arch=_DEFAULTS.learning.hidden, batch_size=_DEFAULTS.learning.batch,
    buffer_size=_DEFAULTS.capacity, learning_starts=0, gradient_steps=_DEFAULTS.updates,
)  # fmt: skip
ALGORITHMS = (replace(_AGENT, name="DDPG", n_critics=1), _AGENT)
# pages of torch's code that acting, learning and evolving touch
_CODE = Span(17 * MB, 24 * MB, 36 * MB)

# ---- formulas ----------------------------------------------------------------------------------


def _extractor(config: Config, observation: Observation) -> Extractor:
    """Every observation is flattened; of a window, networks see means of 1, 2, 4, … rows."""
    own = config.trainer
    stretches = own.window.bit_length() if own.is_windowed else 0
    state = sum(box.network_inputs for box in observation.values())
    return Extractor(0, stretches * own.columns + state)


def _network_rows(job: Job) -> Iterator[Row]:
    """Networks, moments, data and batches; what every process has is not in it."""
    rows = job.config.population + 1
    for name, parameters in job.modules.by_name.items():
        formula = f"{parameters:,} parameters × 4 B × ({rows - 1} agents and the best one)"
        yield Row(f"networks/{name}", Span.exact(parameters * FLOAT * rows), formula, When.START)
    trained = job.modules.trained
    formula = f"2 × {trained:,} trained parameters × 4 B × {rows} (adam)"
    yield Row("optimizer", Span.exact(2 * trained * FLOAT * rows), formula, When.START)
    yield from _data_rows(job)
    yield from _batch_rows(job)
    weights = (job.modules.total + 2 * trained) * FLOAT * rows
    formula = "networks and moments; the buffer's part is what is new in it"
    yield Row("checkpoint/state", Span.exact(weights), formula, When.CHECKPOINT, Where.DISK)


def _data_rows(job: Job) -> Iterator[Row]:
    trainer = job.config.trainer
    if trainer.table_rows:
        # the assets' returns lie beside the table
        width = trainer.columns + job.action.outputs
        formula = f"{trainer.table_rows:,} rows × {width:,} × 4 B, prices and features"
        size = trainer.table_rows * width * FLOAT
        yield Row("data", Span.around(size, 1, 2), formula, When.START)


def _batch_rows(job: Job) -> Iterator[Row]:
    trainer = job.config.trainer
    batches = 1 if trainer.shared_batch else learners_of(job)
    rows = batches * job.batch_size
    pair = sum(2 * box.elements * FLOAT for box in job.observation.values())
    if trainer.is_windowed:
        both = trainer.window + 1 if trainer.n_step == 1 else 2 * trainer.window
        pair += both * trainer.columns * FLOAT
    formula = f"{rows:,} observations with the next ones × {pair:,} B, reused for every batch"
    yield Row("batch", Span.exact(rows * pair), formula, When.UPDATE)
    features = job.modules.extractor.features
    formula = f"2 × 2 × {rows:,} × {features:,} × 4 B: encoded, and as tensors"
    size = 4 * rows * features * FLOAT
    yield Row("update/features", Span.exact(size), formula, When.UPDATE, transient=True)


def _storage(job: Job) -> Storage:
    """`ramledger.replay`'s buffer, by its own function."""
    # numpy comes with it, and no other framework's plan needs it
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
    return Storage((Array("replay", rows, size, formula, of_objects=True),), rows)


def _update(job: Job) -> Update:
    """One update of every learner, a chunk of agents at a time."""
    learners = learners_of(job)
    agents = min(job.config.trainer.agents_per_chunk or learners, learners)
    batch = job.batch_size
    gradients = agents * _largest_network(job) * FLOAT
    features, actions = job.modules.extractor.features, job.action.outputs
    # inputs of the critic and their gradient; all agents' copies of one minibatch
    inputs = 2 * (features + actions) + (features if job.config.trainer.shared_batch else 0)
    # hidden layers of actor and critic, and the gradients of one of them
    hidden = 3 * job.modules.tower_widths // (1 + job.n_critics)
    live = gradients + FLOAT * agents * batch * (inputs + hidden)
    formula = f"{gradients:,} B gradients + {agents} agents × {batch:,} × {inputs + hidden:,} × 4 B"
    largest = FLOAT * agents * max(job.modules.largest_parameter, batch * (features + actions))
    return Update(live, formula, 0, "", heap(job, live, largest), _CODE, live)


def learners_of(job: Job) -> int:
    """Agents that learn by gradients."""
    return min(job.config.trainer.learners or job.config.population, job.config.population)


def _largest_network(job: Job) -> int:
    """Only one network has gradients at a time."""
    return max(job.modules.by_name["actor"], job.modules.by_name["critic"] // job.n_critics)


# it calls torch's fused Adam itself
OWN_TRAINER = Framework(
    "ramledger", ALGORITHMS, import_mb=19.6, storage=_storage, extractor=_extractor,
    network_rows=_network_rows, update=_update, imports_optimizer=False,
)  # fmt: skip

# ---- its config --------------------------------------------------------------------------------

# keys that a config of the planner has as well say nothing
_TELLING = set(FIELDS) - {"env", "population", "seed"}
_PLACES = {
    "buffer_size": "capacity", "batch_size": "learning.batch", "net_arch": "learning.hidden",
    "n_envs": "episodes", "population": "population", "torch_threads": "threads",
    "total_steps": "generations", "gradient_steps": "updates",
}  # fmt: skip
_TIME_LIMITS = {"Pendulum": 200, "MountainCarContinuous": 999, "BipedalWalker": 1600,
                "LunarLander": 1000, "LunarLanderContinuous": 1000}  # fmt: skip
_MUJOCO_LIMIT = 1000


def is_trainer(data: Any) -> bool:
    """Whether plain data is a config of the trainer: it has a key that no other config has."""
    return isinstance(data, dict) and bool(_TELLING & set(data)) and "algorithm" not in data


def file_reading(data: Mapping[str, Any], path: str) -> Reading:
    """The run that a file describes."""
    reading = trainer_reading(checked(data, path), path)
    places = {field: f"{path}: {key}" for field, key in _PLACES.items()}
    return replace(reading, places=places)


def trainer_reading(
    own: TrainerConfig, where: str = "config", known: Mapping[str, Any] | None = None
) -> Reading:
    """A run as a config to plan; `known` are fields that the caller knows from the task itself."""
    task = merged(_task_fields(own, where), known or {})
    return Reading(config_from(_fields(own, task), where))


def _fields(own: TrainerConfig, task: Mapping[str, Any]) -> dict[str, Any]:
    learning, length = own.learning, task.get("episode_length")
    streams = own.population * own.episodes
    fields: dict[str, Any] = {
        "framework": "ramledger",
        "algorithm": "TD3" if learning.twin else "DDPG",
        "env": own.env,
        "population": own.population,
        "n_envs": streams,
        "buffer_size": own.capacity,
        "batch_size": learning.batch,
        "net_arch": list(learning.hidden),
        "learning_starts": 0,
        "gradient_steps": own.updates,
        "torch_threads": own.threads,
        "callbacks": {"checkpoints_kept": own.keep},
    }
    if length:
        fields |= {"train_freq": length, "total_steps": own.generations * streams * length}
    trainer = {
        "learners": own.learners,
        "agents_per_chunk": own.agents_per_chunk,
        "shared_batch": own.shared_batch,
        "evaluations": own.population * own.validation_episodes,
        "n_step": learning.n_step,
        **task.get("trainer", {}),
    }
    return merged(fields, {**task, "trainer": trainer})


def _task_fields(own: TrainerConfig, where: str) -> dict[str, Any]:
    """What the task decides: spaces, data and the length of an episode."""
    if own.env != TRADING:
        cut = {"episode_length": own.episode_steps} if own.episode_steps else {}
        return _registered(own.env) | cut
    rows, assets, columns = own.market.rows, own.market.assets, own.market.features
    if own.data:
        rows, assets, columns = _file_shape(own.data, where)
    return {
        "observation": {"portfolio": f"{assets + EXTRA_STATE}:float32"},
        "action": f"box:{assets}",
        "episode_length": own.trading.steps,
        "trainer": {
            "is_windowed": True, "window": own.trading.window, "columns": assets * columns,
            "table_rows": rows,
        },
    }  # fmt: skip


def _registered(env: str) -> dict[str, Any]:
    known = known_environment(env)
    root = env.rpartition("/")[2].rpartition("-v")[0]
    is_mujoco = known is not None and known.observation.get("", "").endswith("float64")
    length = _TIME_LIMITS.get(root) or (_MUJOCO_LIMIT if is_mujoco else None)
    return {"episode_length": length} if length else {}


def _file_shape(data: str, where: str) -> tuple[int, int, int]:
    """Dates, assets and numbers an asset of a CSV file; the first feature is the day's return."""
    if not data.endswith(".csv"):
        raise ConfigError(
            f"{where}: data: the planner reads CSV files only, got {data}",
            hint=f"`ramledger train {where} --plan` reads all kinds of data",
        )
    try:
        rows = csv.DictReader(text_lines(data, ConfigError, "give a CSV file"))
        names = rows.fieldnames or []
        dates, assets = set(), set()
        for row in rows:
            dates.add(row.get(DATE))
            assets.add(row.get(ASSET))
    except ConfigError as error:
        raise ConfigError(f"{where}: data: {error.message}", hint=error.hint) from None
    except csv.Error as error:
        raise ConfigError(
            f"{where}: data: cannot read {data}: {error}", hint="give a CSV file"
        ) from None
    if not {DATE, ASSET, CLOSE} <= set(names) or not dates:
        raise ConfigError(
            f"{where}: data: {data} needs the columns {DATE}, {ASSET} and {CLOSE}, "
            "and at least one row",
            hint="one row a date and asset: docs/train.md",
        )
    return len(dates), len(assets), len(names) - 2
