"""How good an agent is: its returns on fresh episodes, beside random actions and buy-and-hold."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ramledger import ConfigError
from ramledger.train.population import Population, forward
from ramledger.train.rollout import Act, run_episodes
from ramledger.train.tasks import Environment, Task, TradingTask, make_task
from ramledger.train.trainer import Trainer
from ramledger.trainer_config import checked, to_dict

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Score:
    """Returns of one way to act."""

    name: str
    mean: float
    deviation: float
    episodes: int


def other_task(trainer: Trainer, env: str | None, data: str | None) -> Task:
    """Another environment or market that agents of this run can act in."""
    changes = {name: value for name, value in (("env", env), ("data", data)) if value is not None}
    task = make_task(checked({**to_dict(trainer.config), **changes}))
    ours = trainer.task
    if (task.features, task.actions) != (ours.features, ours.actions):
        raise ConfigError(
            f"the agent was trained with {ours.features} features and {ours.actions} actions, "
            f"got {task.features} and {task.actions}",
            hint="choose an environment or data of the same shape",
        )
    return task


def compare(
    task: Task, population: Population, *, span: str = "test", episodes: int = 20, seed: int = 0
) -> list[Score]:
    """The best agent, random actions and, where there is a market, equal weights held."""
    env = task.environment(span, episodes)
    actors = population.rows("actor", population.best, population.best + 1)
    rng = np.random.default_rng((seed, 0x7E57))

    def best(features: Array) -> Array:
        with torch.no_grad():
            found: Array = forward(actors, torch.from_numpy(features)[None]).tanh_()[0].numpy()
        return found

    def random(features: Array) -> Array:
        return rng.uniform(-1, 1, (len(features), task.actions)).astype(np.float32)

    ways: dict[str, Act] = {"best agent": best, "random": random}
    scores = [_score(name, env, task, act, episodes) for name, act in ways.items()]
    if isinstance(task, TradingTask):
        hold = np.ones((episodes, task.actions), np.float32)
        scores.append(_score("buy and hold", env, task, lambda _: hold, episodes))
    return scores


def _score(name: str, env: Environment, task: Task, act: Act, episodes: int) -> Score:
    # the same episodes for all ways to act, and none of the validation episodes
    first = env.begin(episodes, np.random.default_rng(0x5C04E))
    done = run_episodes(env, first, task.encode, act, keep=False)
    return Score(name, float(done.returns.mean()), float(done.returns.std()), episodes)
