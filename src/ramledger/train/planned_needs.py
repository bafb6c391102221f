"""What a run will hold, account by account: its configuration and task, planned."""

from typing import Any

import gymnasium

from ramledger.plan.budget import Budget
from ramledger.plan.formulas.library_pages import TRAINING_FACTOR
from ramledger.plan.formulas.process_costs import shipped_baseline
from ramledger.plan.frameworks.own_trainer import market_shape, trainer_fields
from ramledger.plan.make_plan import plan
from ramledger.plan.predict import Setting, mapped_ahead
from ramledger.replay import Field
from ramledger.train.tasks import Task
from ramledger.train.train_config import TRADING, Config, to_dict


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
