"""Some agents of a population with their own environments: the work of one Ray actor."""

import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from ramledger import headroom
from ramledger.train.engine import drawing, explored, validated
from ramledger.train.market import Market
from ramledger.train.population import Minibatch, Population
from ramledger.train.rollout import Episodes
from ramledger.train.tasks import GymnasiumTask, Task, TradingTask
from ramledger.trainer_config import TRADING, TrainerConfig, checked

Array = np.ndarray[Any, np.dtype[Any]]
STEPS_A_BATCH = 64  # of all episodes of a shard, sent together

# weights and moments of a shard's rows by name, rates, counters
State = dict[str, Any]


class Shard:
    """Rows `begin … end - 1`. State comes in by `load` and goes out by `learned`."""

    def __init__(self, plain: Mapping[str, Any], begin: int, end: int, market: Market | None):
        whole = checked(plain)
        torch.set_num_threads(whole.threads)
        self._begin, size = begin, end - begin
        learners = min(max(whole.learning_agents - begin, 0), size)
        self._config: TrainerConfig = msgspec.structs.replace(
            whole, population=size, learners=0, shards=1
        )
        self._task: Task = (
            TradingTask(self._config, market)
            if whole.env == TRADING and market is not None
            else GymnasiumTask(self._config)
        )
        self._population = Population(
            self._task.features, self._task.actions, agents=size, learners=learners,
            learning=whole.learning, agents_per_chunk=whole.chunk, seed=0,
        )  # fmt: skip
        self._generation = 0

    def load(self, state: State) -> None:
        """The agents as they are when a generation, or what is left of it, begins."""
        with torch.no_grad():
            for name, tensor in self._population.tensors():
                tensor[: self._config.population] = torch.from_numpy(np.array(state[name]))
        rows = self._config.population
        self._population.actor_lr[:rows], self._population.critic_lr[:rows] = state["rates"]
        self._population.updates, self._population.actor_updates = state["updates"]
        self._generation = state["generation"]

    def explore(self) -> Iterator[dict[str, Any]]:
        """Episodes in pieces: the first observations, then steps, then returns and lengths."""
        done = explored(
            self._config, self._task, self._population, self._generation, first=self._begin
        )
        yield {"first": done.observations[0]}
        for at in range(0, len(done.steps), STEPS_A_BATCH):
            until = at + STEPS_A_BATCH
            yield {
                "observations": _stacked(done.observations[at + 1 : until + 1]),
                "steps": [np.stack(column) for column in zip(*done.steps[at:until], strict=True)],
            }
        yield {"returns": done.returns, "lengths": done.lengths}

    def update(self, number: int, batch: tuple[Array, ...]) -> list[float]:
        """One update of the learners here; the critic losses by chunk."""
        draw = drawing(self._config.seed, self._generation, "update", number, first=self._begin)
        # aligned memory of torch's own, see population.new_network
        given = Minibatch(*(torch.from_numpy(np.array(values)).clone() for values in batch))
        return self._population.update_chunks(given, draw)

    def learned(self) -> State:
        """The agents as they are now."""
        return state_of(self._population, 0, self._config.population, self._generation)

    def validate(self) -> Array:
        return validated(self._config, self._task, self._population)

    def memory(self) -> dict[str, Any]:
        """What this process holds, and the first limit of its node."""
        rollup = Path("/proc/self/smaps_rollup").read_text("ascii")
        fields = {
            name: int(kib) * 1024
            for name, kib in re.findall(r"^(\w+): +(\d+) kB$", rollup, re.MULTILINE)
        }
        room = headroom()
        limit = {"bytes": room.limit.bytes, "source": room.limit.source} if room else None
        return {
            "node": socket.gethostname(), "pid": os.getpid(), "rss_bytes": fields["Rss"],
            "pss_bytes": fields["Pss"], "limit": limit,
            "uss_bytes": fields["Private_Clean"] + fields["Private_Dirty"],
        }  # fmt: skip


def state_of(population: Population, begin: int, end: int, generation: int) -> State:
    """Rows of a population as plain arrays, which share its memory."""
    arrays: State = {name: tensor[begin:end].numpy() for name, tensor in population.tensors()}
    rates = [population.actor_lr[begin:end], population.critic_lr[begin:end]]
    counters = [population.updates, population.actor_updates]
    return {**arrays, "rates": rates, "updates": counters, "generation": generation}


def take_state(population: Population, begin: int, end: int, state: State) -> None:
    """Rows of a population from what a shard has learned; rates do not change by learning."""
    with torch.no_grad():
        for name, tensor in population.tensors():
            tensor[begin:end] = torch.from_numpy(np.array(state[name]))
    population.updates, population.actor_updates = state["updates"]


def assembled(pieces: Iterator[dict[str, Any]]) -> Episodes:
    """Episodes from their pieces."""
    observations: list[Any] = []
    steps: list[tuple[Array, Array, Array, Array]] = []
    for piece in pieces:
        if "first" in piece:
            observations.append(piece["first"])
        elif "steps" in piece:
            observations += _unstacked(piece["observations"])
            steps += zip(*piece["steps"], strict=True)
        else:
            return Episodes(piece["returns"], piece["lengths"], observations, steps)
    raise EOFError("the last piece of the episodes is missing")


def _stacked(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {name: np.stack([o[name] for o in observations]) for name in observations[0]}
    return np.stack(observations)


def _unstacked(observations: Any) -> list[Any]:
    if isinstance(observations, dict):
        count = len(next(iter(observations.values())))
        return [{name: values[at] for name, values in observations.items()} for at in range(count)]
    return list(observations)
