"""What a run will hold, account by account, known before it is allocated."""

import math
from dataclasses import dataclass

from ramledger.replay import Frames, TableWindow, bytes_per_transition
from ramledger.train.config import Config
from ramledger.train.population import FLOAT_BYTES, Population
from ramledger.train.tasks import Task


@dataclass(frozen=True, slots=True)
class Need:
    """One account of a run to come."""

    account: str
    bytes: int
    formula: str


def needs_of(config: Config, task: Task) -> list[Need]:
    """Everything besides the process as it is now: imports, data and environments are there."""
    learning, agents = config.learning, config.population
    size = (task.features, task.actions)
    batches = 1 if config.shared_batch else config.learning_agents
    rows = batches * learning.batch
    transition = bytes_per_transition(task.schema)
    windows = rows * _pair_bytes(task, learning.n_step)
    encoded = 2 * 2 * rows * task.features * FLOAT_BYTES
    return [
        Need("networks and optimizer", Population.size_bytes(*size, agents, learning),
             f"{agents + 1} agents × (weights, targets, two moments)"),
        Need("replay", int(config.capacity * transition),
             f"{config.capacity:,} transitions × {transition:,.0f} B"),
        Need("batch/observations", windows, f"{rows:,} observations, and the next ones"),
        Need("batch/features", encoded, f"2 × 2 × {rows:,} × {task.features:,} numbers"),
        Need("update", Population.update_bytes(*size, config.chunk, learning),
             f"gradients and activations of {config.chunk} agents"),
    ]  # fmt: skip


def _pair_bytes(task: Task, n_step: int) -> int:
    """An observation and the next one in a batch: windows one row apart are gathered together."""
    total = 0
    for kind in task.schema.observations.values():
        if isinstance(kind, TableWindow):
            table = task.tables[kind.table]
            row_bytes = table.nbytes // len(table)
            total += row_bytes * (kind.length + 1 if n_step == 1 else 2 * kind.length)
        elif isinstance(kind, Frames):
            total += 2 * kind.stack * math.prod(kind.shape)
        else:
            total += 2 * math.prod(kind.shape) * FLOAT_BYTES
    return total
