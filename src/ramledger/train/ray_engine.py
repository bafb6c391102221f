"""The population in shards on Ray actors, on this machine or a cluster.

An actor gets its agents' state once a generation, through the object store. It explores, learns
from minibatches that the trainer draws, and returns the agents. A dead actor is replaced; all that
an actor does is a function of its inputs, so its successor gives the same results.
"""

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ramledger import ConfigError, RamledgerError
from ramledger.train.population import Minibatch
from ramledger.train.shard import Array, Shard, assembled, state_of, take_state
from ramledger.train.tasks import TradingTask
from ramledger.trainer_config import TrainerConfig, to_dict

if TYPE_CHECKING:
    from ramledger.train.trainer import Trainer

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ModuleNotFoundError as error:
    raise ConfigError("ray is not installed", hint="pip install 'ramledger[ray]'") from error

IN_FLIGHT = 2  # updates that an actor has not finished: its minibatches are what waits in memory
MAX_DEATHS = 3  # of a shard in one phase
SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEAST_STORE_BYTES = 128 << 20
MEMORY_SECONDS = 30.0
HINT = (
    "check --address, or leave it out; a cluster with a token needs RAY_AUTH_MODE=token here, too"
)

Failed = list[int]  # shards whose actors died


class Actor(Shard):
    """A shard that knows on which of Ray's nodes it is; a machine may have several."""

    def explore_all(self) -> list[dict[str, Any]]:
        """All pieces at once."""
        return list(self.explore())

    def memory(self) -> dict[str, Any]:
        found = super().memory()
        number: str = ray.get_runtime_context().get_node_id()
        return found | {"node": f"{found['node']} {number[:8]}"}


class RayEngine:
    """One actor a shard."""

    def __init__(self, config: TrainerConfig, *, address: str = "") -> None:
        self.deaths = 0
        self.memory: list[dict[str, Any]] = []  # of the actors, at the end of a generation
        self._config, self._address = config, address
        self._actors: list[Any] = []
        self._shared: tuple[Any, Any] = (None, None)  # configuration and market in the store
        self._is_ours = False
        self._holds = (-1, -1)  # generation and updates of what the actors hold

    # ---- phases ----------------------------------------------------------------------------

    def explore(self, trainer: "Trainer") -> Array:
        self._load(trainer)
        if self._address.startswith("ray://"):  # Ray's client has no streams
            done = self._for_all(
                trainer, lambda actor: actor.explore_all.remote(),
                lambda pieces: assembled(iter(ray.get(pieces))),
            )  # fmt: skip
        else:
            done = self._for_all(
                trainer, lambda actor: actor.explore.options(num_returns="streaming").remote(),
                lambda stream: assembled(map(ray.get, stream)),
            )  # fmt: skip
        for (begin, _), found in zip(self._config.ranges, done, strict=True):
            found.store(trainer.buffer, begin * self._config.episodes)
        return np.concatenate([found.returns for found in done])

    def learn(self, trainer: "Trainer") -> None:
        self._load(trainer)
        learners = self._config.learning_agents
        waiting = [at for at, (begin, _) in enumerate(self._config.ranges) if begin < learners]
        first, stop = trainer.updates_done, self._config.updates
        drawn = trainer.buffer.rng.bit_generator.state
        learned: dict[int, tuple[list[float], Any]] = {}
        deaths = 0
        while waiting:
            # a new actor needs the same minibatches: drawn again, they are the same
            trainer.buffer.rng.bit_generator.state = drawn
            feed = _Feed(self._actors, waiting, self._config)
            stop = feed.run(trainer, first, stop, is_first=not learned and not deaths)
            learned |= feed.learned
            deaths += len(feed.failed)
            self._replace(trainer, feed.failed, deaths)
            waiting = feed.failed
        losses = [loss for at in sorted(learned) for loss in learned[at][0]]
        for at, (_, state) in learned.items():
            take_state(trainer.population, *self._config.ranges[at], state)
        if stop > first:
            trainer.loss = sum(losses) / learners
        self._holds = (trainer.generation, trainer.updates_done)

    def validate(self, trainer: "Trainer") -> Array:
        if self._holds != (trainer.generation, self._config.updates):
            self._load(trainer)
        done = self._for_all(trainer, lambda actor: actor.validate.remote(), ray.get)
        self._holds = (-1, -1)  # evolution follows
        self._record_memory(trainer)
        return np.concatenate(done)

    def close(self) -> None:
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        if self._is_ours:
            ray.shutdown()
            self._is_ours = False

    # ---- actors ----------------------------------------------------------------------------

    def _load(self, trainer: "Trainer") -> None:
        """Give the actors their agents, once a generation."""
        if not self._actors:
            self._start(trainer)
        if self._holds == (trainer.generation, trainer.updates_done):
            return
        for number in range(len(self._actors)):
            self._give(trainer, number)
        self._holds = (trainer.generation, trainer.updates_done)

    def _give(self, trainer: "Trainer", number: int) -> None:
        begin, end = self._config.ranges[number]
        state = state_of(trainer.population, begin, end, trainer.generation)
        # a dead actor is noticed by the call after this one
        self._actors[number].load.remote(ray.put(state))

    def _start(self, trainer: "Trainer") -> None:
        if not ray.is_initialized():
            self._connect(trainer)
        market = trainer.task.market if isinstance(trainer.task, TradingTask) else None
        self._shared = (ray.put(to_dict(self._config)), ray.put(market))
        self._actors = [self._made(number) for number in range(len(self._config.ranges))]

    def _connect(self, trainer: "Trainer") -> None:
        # without it, ray warns about a future change in how it treats accelerators
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            if self._address:
                ray.init(address=self._address, **quiet)
            else:
                state = sum(tensor.nbytes for _, tensor in trainer.population.tensors())
                tables = sum(table.nbytes for table in trainer.task.tables.values())
                size = LEAST_STORE_BYTES + 3 * state + 2 * tables
                ray.init(num_cpus=max(self._config.shards, os.cpu_count() or 1),
                         include_dashboard=False, object_store_memory=size, **quiet)  # fmt: skip
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise RamledgerError(f"Ray does not start: {error}", hint=HINT) from None
        self._is_ours = True
        # Ray's own would end the process without a checkpoint
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _made(self, number: int, *, again: bool = False) -> Any:
        begin, end = self._config.ranges[number]
        plain, market = self._shared
        # a request for more than the nodes have would wait for ever; and for some time after one
        # was lost, Ray still counts what it had
        wanted = len(self._config.ranges)
        is_enough = not again and ray.cluster_resources().get("CPU", 0) >= wanted
        options = {"num_cpus": int(is_enough), "scheduling_strategy": "SPREAD"}
        return ray.remote(Actor).options(**options).remote(plain, begin, end, market)

    def _replace(self, trainer: "Trainer", failed: Failed, deaths: int) -> None:
        """New actors in the place of dead ones, with agents as the trainer has them."""
        self.deaths += len(failed)
        if deaths > MAX_DEATHS * len(self._actors):
            raise RamledgerError(
                f"Ray actors died {deaths} times in one phase",
                hint="more --workers hold less each; `ray logs` and the kernel's log say why",
            )
        for number in failed:
            ray.kill(self._actors[number])
            self._actors[number] = self._made(number, again=True)
            self._give(trainer, number)

    def _for_all(
        self, trainer: "Trainer", ask: Callable[[Any], Any], answer: Callable[[Any], Any]
    ) -> list[Any]:
        """Every actor's answer, by shard; a dead actor is replaced and asked again."""
        found: dict[int, Any] = {}
        waiting: Failed = list(range(len(self._actors)))
        deaths = 0
        while waiting:
            asked = {number: ask(self._actors[number]) for number in waiting}
            waiting = []
            for number, question in asked.items():
                try:
                    found[number] = answer(question)
                except RayError as error:
                    _raise_ours(error)
                    waiting.append(number)
            deaths += len(waiting)
            self._replace(trainer, waiting, deaths)
        return [found[number] for number in range(len(self._actors))]

    def _record_memory(self, trainer: "Trainer") -> None:
        """Record what every actor holds."""
        try:
            asked = [actor.memory.remote() for actor in self._actors]
            self.memory = ray.get(asked, timeout=MEMORY_SECONDS)
        except RayError as error:
            _raise_ours(error)
            return
        for number, found in enumerate(self.memory):
            trainer.ledger.elsewhere(f"shard {number}", found)


class _Feed:
    """Minibatches to the actors of some shards, a few ahead of what they have finished."""

    def __init__(self, actors: list[Any], shards: list[int], config: TrainerConfig) -> None:
        self.learned: dict[int, tuple[list[float], Any]] = {}
        self.failed: Failed = []
        self._actors, self._shards, self._config = actors, shards, config
        self._under_way: dict[int, deque[Any]] = {shard: deque() for shard in shards}
        self._losses: dict[int, list[float]] = {shard: [] for shard in shards}

    def run(self, trainer: "Trainer", first: int, stop: int, *, is_first: bool) -> int:
        """Updates `first … stop - 1`, fewer if asked to stop; returns where it stopped."""
        for number in range(first, stop):
            if is_first and trainer.stop_reason:
                stop = number
                break
            self._send(number, trainer.sample())
            if is_first:
                trainer.updated(trainer.loss)
        for shard in self._alive():
            self._attempt(shard, self._finish)
        return stop

    def _alive(self) -> list[int]:
        return [shard for shard in self._shards if shard not in self.failed]

    def _send(self, number: int, batch: Minibatch) -> None:
        whole = [part.numpy() for part in (batch.features, batch.action, batch.reward,
                                           batch.next_features, batch.discount)]  # fmt: skip
        is_shared = len(whole[0]) == 1
        given = ray.put(tuple(whole)) if is_shared else None
        for shard in self._alive():
            begin, end = self._config.ranges[shard]
            part = given if is_shared else tuple(values[begin:end] for values in whole)
            self._under_way[shard].append(self._actors[shard].update.remote(number, part))
            if len(self._under_way[shard]) > IN_FLIGHT:
                self._attempt(shard, self._await_one)

    def _await_one(self, shard: int) -> None:
        self._losses[shard] = ray.get(self._under_way[shard].popleft())

    def _finish(self, shard: int) -> None:
        while self._under_way[shard]:
            self._await_one(shard)
        state = ray.get(self._actors[shard].learned.remote())
        self.learned[shard] = (self._losses[shard], state)

    def _attempt(self, shard: int, action: Callable[[int], None]) -> None:
        try:
            action(shard)
        except RayError as error:
            _raise_ours(error)
            self.failed.append(shard)


def _raise_ours(error: RayError) -> None:
    """Raise errors of our own code: they would occur again, and are not the death of an actor."""
    if isinstance(error, RayTaskError):
        raise error
