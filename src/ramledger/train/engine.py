"""Where the work of a generation is done: in this process, or in parts on Ray actors.

Both run the functions below on the same shards with the same random numbers, so both give the same
run, bit by bit, on processors of one kind.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ramledger.train.population import Draw, Population
from ramledger.train.rollout import Episodes, acting, run_episodes
from ramledger.train.tasks import Task
from ramledger.trainer_config import TrainerConfig

if TYPE_CHECKING:
    from ramledger.train.trainer import Trainer

Array = np.ndarray[Any, np.dtype[Any]]

PURPOSES = {"starts": 1, "noise": 2, "update": 3, "evolve": 4}


def rng_of(seed: int, generation: int, purpose: str, *more: int) -> np.random.Generator:
    """All randomness besides the buffer's: a function of seed, generation and purpose."""
    return np.random.default_rng((seed, generation, PURPOSES[purpose], *more))


def drawing(seed: int, generation: int, purpose: str, *more: int, first: int = 0) -> Draw:
    """Randomness of a range of agents, by its first row in the whole population."""

    def draw(begin: int) -> np.random.Generator:
        row = first + begin
        return rng_of(seed, generation, purpose, *more, *([row] if row else []))

    return draw


def explored(
    config: TrainerConfig, task: Task, population: Population, generation: int, first: int = 0
) -> Episodes:
    """Every agent in the training environment; what happens there is the experience."""
    noise = drawing(config.seed, generation, "noise", first=first)
    act = acting(population, task, config.episodes, config.exploration, noise)
    start = task.training.begin(config.episodes, rng_of(config.seed, generation, "starts"))
    return run_episodes(task.training, start, task.encode, act, keep=True)


def validated(config: TrainerConfig, task: Task, population: Population) -> Array:
    """Returns of every agent on the validation episodes, without noise."""
    env, episodes = task.validation, config.validation_episodes
    act = acting(population, task, episodes)
    return run_episodes(env, env.begin(episodes), task.encode, act, keep=False).returns


class Engine(Protocol):
    """What a trainer asks for, phase by phase."""

    def explore(self, trainer: "Trainer") -> Array:
        """Fill the buffer; returns of all episodes, agent by agent."""

    def learn(self, trainer: "Trainer") -> None:
        """Updates up to the configured number, or until the trainer is asked to stop."""

    def validate(self, trainer: "Trainer") -> Array:
        """Returns of all validation episodes, agent by agent."""

    def close(self) -> None:
        """Release everything."""


class LocalEngine:
    """Does all the work in this process."""

    def explore(self, trainer: "Trainer") -> Array:
        done = explored(trainer.config, trainer.task, trainer.population, trainer.generation)
        done.store(trainer.buffer)
        return done.returns

    def learn(self, trainer: "Trainer") -> None:
        config, population = trainer.config, trainer.population
        while trainer.updates_done < config.updates and not trainer.stop_reason:
            draw = drawing(config.seed, trainer.generation, "update", trainer.updates_done)
            losses = population.update_chunks(trainer.sample(), draw)
            trainer.updated(sum(losses) / population.learners)

    def validate(self, trainer: "Trainer") -> Array:
        return validated(trainer.config, trainer.task, trainer.population)

    def close(self) -> None:
        pass
