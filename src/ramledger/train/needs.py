"""What a run will hold, account by account: its configuration and task, planned."""

from typing import Any

import gymnasium

from ramledger.plan.budget import Budget
from ramledger.plan.budgeting import Setting, mapped_ahead
from ramledger.plan.libraries import TRAINING_FACTOR
from ramledger.plan.planning import plan
from ramledger.plan.processes import shipped_baseline
from ramledger.plan.reading.trainer import market_shape, trainer_fields
from ramledger.replay import Field
from ramledger.train.config import TRADING, Config, to_dict
from ramledger.train.tasks import Task


def plan_run(
    config: Config, task: Task, *, imported_bytes: int | None = None, limit_bytes: int = 0
) -> Budget:
    """The budget of a run; `imported_bytes` is what a process with everything imported takes."""
    fields = trainer_fields(to_dict(config), _shape(config, task))
    if limit_bytes:
        fields["machine"] = {"ram": limit_bytes}
    setting = None
    if imported_bytes is not None:
        # the imports' part of it is in that already
        ahead = mapped_ahead(TRAINING_FACTOR - 1)
        baseline = shipped_baseline().measured("ramledger", imported_bytes)
        setting = Setting(baseline, ahead=ahead)
    return plan(fields, setting=setting)


def _shape(config: Config, task: Task) -> dict[str, Any]:
    if config.env == TRADING:
        table = task.tables["market"]
        columns = table.shape[1] // task.actions
        rules = config.trading
        return market_shape(len(table), task.actions, columns, rules.window, rules.steps)
    found: dict[str, Any] = {"action": f"box:{task.actions}"}
    for kind in task.schema.observations.values():
        if isinstance(kind, Field):
            found["observation"] = "x".join(map(str, kind.shape)) + f":{kind.dtype}"
    length = config.episode_steps or gymnasium.spec(config.env).max_episode_steps
    return found | ({"episode_length": length} if length else {})
