"""What a run will hold, account by account: its config and task, planned."""

from typing import TYPE_CHECKING, Any

import gymnasium
import msgspec

import ramledger
from ramledger.replay import Field
from ramledger.train.tasks import Task
from ramledger.trainer_config import TRADING, TrainerConfig

if TYPE_CHECKING:
    from ramledger import Budget


def plan_run(
    config: TrainerConfig,
    task: Task,
    *,
    imported_bytes: int | None = None,
    limit_bytes: int = 0,
) -> "Budget":
    """The budget of a run; `imported_bytes` is what a process with everything imported takes."""
    known: dict[str, Any] = {"machine": {"ram": limit_bytes}} if limit_bytes else {}
    if config.env == TRADING:
        config = _with_shape_of(config, task)
    else:
        known |= _task_spaces(config, task)
    return ramledger.plan(config, imported_bytes=imported_bytes, **known)


def _with_shape_of(config: TrainerConfig, task: Task) -> TrainerConfig:
    """The config with a synthetic market as large as the one that was read."""
    rows, columns = task.tables["market"].shape
    market = msgspec.structs.replace(
        config.market, rows=rows, assets=task.actions, features=columns // task.actions
    )
    return msgspec.structs.replace(config, data="", market=market)


def _task_spaces(config: TrainerConfig, task: Task) -> dict[str, Any]:
    """Spaces and the length of an episode, as the environment has them."""
    found: dict[str, Any] = {"action": f"box:{task.actions}"}
    for kind in task.schema.observations.values():
        if isinstance(kind, Field):
            found["observation"] = "x".join(map(str, kind.shape)) + f":{kind.dtype}"
    length = config.episode_steps or gymnasium.spec(config.env).max_episode_steps
    return found | ({"episode_length": length} if length else {})
