"""The run: evaluate, train, evolve; a checkpoint every generation; stopped and resumed at will.

All randomness is a function of the seed, the generation and the purpose, or the buffer's own, so a
resumed run is bit-identical to one that was never interrupted.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ramledger import (
    CheckpointError,
    ConfigError,
    OverBudgetError,
    RamledgerError,
    headroom,
)
from ramledger.durable_files import shown
from ramledger.replay import ReplayBuffer
from ramledger.train import checkpoint
from ramledger.train.engine import Engine, LocalEngine, rng_of
from ramledger.train.population import Minibatch, Population
from ramledger.train.remote_checkpoints import Uploader
from ramledger.train.tasks import Task, make_task
from ramledger.trainer_config import TrainerConfig, as_resumed, checked, to_dict
from ramledger.units import format_bytes

Array = np.ndarray[Any, np.dtype[Any]]

EVALUATE, TRAIN, EVOLVE = "evaluate", "train", "evolve"
_FINISHED = "finished"


class Listener:
    """Called while a run goes on; every method may be left as it is."""

    def begin(self, trainer: "Trainer", phase: str) -> None: ...

    def advance(self, trainer: "Trainer", done: int, of: int) -> None: ...

    def end(self, trainer: "Trainer", phase: str, seconds: float) -> None: ...

    def generation(self, trainer: "Trainer", row: Mapping[str, Any]) -> None: ...

    def upload(self, trainer: "Trainer", text: str) -> None: ...


class Trainer:
    """One training run and everything in it. `run` returns why it ended."""

    def __init__(
        self, config: TrainerConfig, folder: Path, *, ledger: Any, listener: Listener | None = None,
        buffer: ReplayBuffer | None = None, task: Task | None = None, upload: str = "",
        engine: Engine | None = None, overwrite: bool = False,
    ) -> None:  # fmt: skip
        torch.set_num_threads(config.threads)
        self.config, self.folder, self.ledger = config, Path(folder), ledger
        self.listener = listener or Listener()
        self.task = task or make_task(config)
        self.engine = engine or LocalEngine()
        _check_headroom(config, self.task)
        self.population = Population(
            self.task.features, self.task.actions, agents=config.population,
            learners=config.learning_agents, learning=config.learning,
            agents_per_chunk=config.chunk, seed=config.seed, ranges=config.ranges,
        )  # fmt: skip
        streams = config.population * config.episodes
        self.buffer = buffer if buffer is not None else ReplayBuffer(
            self.task.schema, max(config.capacity, streams), n_envs=streams, seed=config.seed,
            tables=self.task.tables,
        )  # fmt: skip
        self.generation, self.phase, self.updates_done = 0, EVALUATE, 0
        self.fitness = np.zeros(config.population)
        self.best_score = -np.inf
        self.loss = 0.0
        self.history: list[dict[str, Any]] = []
        self.stop_reason = ""
        self.longest_pause_seconds = 0.0  # that the training waited for a checkpoint
        self._pause_seconds = 0.0
        self._batch: Any = None
        self._saving: Any = None
        self._state_path = Path()
        self.uploader = Uploader(
            self.folder, upload, config.keep, lambda text: self.listener.upload(self, text),
            overwrite=overwrite,
        ) if upload else None  # fmt: skip
        self.lost: tuple[str, ...] = ()  # checkpoints that were damaged
        self._claim()

    def _claim(self) -> None:
        self.ledger.claim("replay", self.buffer)
        for group, tensors in self.population.groups.items():
            kind = "optimizer" if group.endswith(("_mean", "_square")) else "networks"
            self.ledger.claim(f"{kind}/{group}", *tensors)
        self.ledger.expect(type(self.task.training), 2)

    # ---- running ---------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """End the run at the next point where nothing is lost; safe in a signal handler."""
        self.stop_reason = self.stop_reason or reason

    def run(self) -> str:
        """To the last generation, or until stopped; the state is saved either way."""
        phases = {EVALUATE: self._evaluate, TRAIN: self._train, EVOLVE: self._evolve}
        try:
            while self.generation < self.config.generations and not self.stop_reason:
                self.ledger.generation(self.generation, of=self.config.generations)
                following = self._in_phase(self.phase, phases[self.phase])
                if following == EVALUATE:
                    self._end_generation()
                self.phase = following
                if following == EVALUATE and not self.stop_reason:
                    self.save()
            if self.stop_reason:
                self.save()
        finally:
            self._finish_saving()
            self.engine.close()
            if self.uploader is not None:
                self.uploader.finish()
        return self.stop_reason or _FINISHED

    def _in_phase(self, name: str, phase: Callable[[], str]) -> str:
        self.listener.begin(self, name)
        if name != EVALUATE:  # which only reads what a state file is written from
            self._finish_saving()
        begin = time.monotonic()
        with self.ledger.phase(name, generation=self.generation):
            following = phase()
        self.listener.end(self, name, time.monotonic() - begin)
        return following

    def _evaluate(self) -> str:
        """Every agent in the training environment; what happens there is the experience."""
        self.fitness = self._by_agent(self.engine.explore(self))
        return TRAIN

    def _train(self) -> str:
        """Updates of every learner from the shared buffer; may be interrupted between two."""
        self.engine.learn(self)
        if self.updates_done < self.config.updates:
            return TRAIN
        self.updates_done = 0
        return EVOLVE

    def updated(self, loss: float) -> None:
        """The engine has made an update of every learner."""
        self.loss = loss
        self.updates_done += 1
        self.listener.advance(self, self.updates_done, self.config.updates)

    def _by_agent(self, returns: Array) -> Array:
        found: Array = returns.reshape(self.config.population, -1).mean(axis=1)
        return found

    def sample(self) -> Minibatch:
        """The next minibatch, in memory that the one after it may use again."""
        learning = self.config.learning
        agents = 1 if self.config.shared_batch else self.config.learning_agents
        found = self.buffer.sample(
            agents * learning.batch, n_step=learning.n_step, gamma=learning.gamma, out=self._batch
        )
        if self._batch is None and learning.n_step == 1:
            self._batch = found  # its arrays are filled again and again
            self.ledger.claim("batch", *arrays_of(found.obs), *arrays_of(found.next_obs))
        discount = found.discount if found.discount is not None else learning.gamma
        discount = np.where(found.terminated, 0, discount).astype(np.float32)

        def tensor(values: Array) -> torch.Tensor:
            # aligned memory of torch's own, see population.new_network
            return torch.from_numpy(values).clone().view(agents, learning.batch, *values.shape[1:])

        return Minibatch(
            tensor(self.task.encode(found.obs)), tensor(found.action), tensor(found.reward),
            tensor(self.task.encode(found.next_obs)), tensor(discount),
        )  # fmt: skip

    def _evolve(self) -> str:
        """The best on the validation environment is kept; the rest becomes the next generation."""
        scores = self._by_agent(self.engine.validate(self))
        leader = int(np.argmax(scores))
        if scores[leader] > self.best_score:
            self.best_score = float(scores[leader])
            self.population.copy_row(leader, self.population.best)
        first = self.task.validation.begin(self.config.validation_episodes)
        states = torch.from_numpy(self.task.encode(first)).clone()[None]
        rng = rng_of(self.config.seed, self.generation, "evolve")
        done = self.population.evolve(self.fitness, rng, self.config.evolution, states)
        self.history.append(
            {
                "generation": self.generation,
                "transitions": self.buffer.total_added,
                "best": float(self.fitness.max()),
                "mean": float(self.fitness.mean()),
                "validation": float(scores[leader]),
                "validation_mean": float(scores.mean()),
                "best_validation": self.best_score,
                "loss": self.loss,
                **done,
            }
        )
        return EVALUATE

    def _end_generation(self) -> None:
        self.generation += 1
        self.listener.generation(self, self.history[-1])

    # ---- checkpoints -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything besides tensors and the buffer, as plain data."""
        return {
            "config": to_dict(self.config),
            "generation": self.generation,
            "phase": self.phase,
            "updates_done": self.updates_done,
            "updates": [self.population.updates, self.population.actor_updates],
            "rates": [self.population.actor_lr.tolist(), self.population.critic_lr.tolist()],
            "fitness": self.fitness.tolist(),
            "best_score": self.best_score if np.isfinite(self.best_score) else None,
            "loss": self.loss,
            "history": list(self.history),
            "replay": self.buffer.fingerprint,
        }

    def save(self) -> None:
        """Save in the background; until the save is durable, no phase changes the population."""
        self._finish_saving()
        begin = time.monotonic()
        with self.ledger.phase("checkpoint"):
            self._saving = self.buffer.save_in_background(
                self.folder / checkpoint.REPLAY, keep=self.config.keep,
                before=partial(self._write_state, list(self.population.tensors()), self.state()),
            )  # fmt: skip
        self._pause_seconds = time.monotonic() - begin

    def _write_state(self, tensors: list[tuple[str, torch.Tensor]], state: dict[str, Any]) -> None:
        path = checkpoint.write_state(self.folder, tensors, state, self.config.keep)
        self._state_path = path

    def _finish_saving(self) -> None:
        saving, self._saving = self._saving, None
        if saving is None:
            return
        begin = time.monotonic()
        saving.wait()
        pause = self._pause_seconds + time.monotonic() - begin
        self.longest_pause_seconds = max(self.longest_pause_seconds, pause)
        if self.uploader is not None:
            self.uploader.send(self._state_path)

    @classmethod
    def resume(
        cls, folder: Path, *, ledger: Any, listener: Listener | None = None,
        options: Mapping[str, Any] | None = None, upload: str = "", engine: Engine | None = None,
        overwrite: bool = False, check: Callable[[TrainerConfig, Task], None] | None = None,
    ) -> "Trainer":  # fmt: skip
        """The run as it was saved in `folder`; a damaged checkpoint is skipped.

        `check` may raise; nothing of the buffer or the population is allocated before it.
        """
        if not checkpoint.numbers_in(folder):
            raise CheckpointError(
                f"no checkpoint of a training run in {folder}",
                hint="name the folder that `ramledger train --out` wrote to",
            )
        lost: list[str] = []
        refused: RamledgerError | None = None
        prepared = _Prepared(options or {}, check)
        for found in checkpoint.candidates(folder, lost):
            try:
                config, task = prepared.of(found)
                _check_save(found, config, task)
                make = partial(cls, config, folder, ledger=ledger, listener=listener, task=task,
                               upload=upload, engine=engine, overwrite=overwrite)  # fmt: skip
                # in its own call: what it made is freed before the next one is tried
                trainer = _filled(make, folder, found, task)
            except (CheckpointError, ConfigError, OverBudgetError) as error:
                lost.append(error.message)
                if refused is None and not isinstance(error, CheckpointError):
                    refused = error.with_traceback(None)  # its frames hold what was made
                continue
            trainer.lost = tuple(lost)
            return trainer
        raise refused or CheckpointError(
            "; ".join([f"no checkpoint of a training run in {folder} is intact", *lost]),
            hint="fetch an uploaded one into another folder, or start a new run",
        )

    def restore(self, state: checkpoint.State) -> None:
        """Continue from what `state` returned."""
        mine = (self.population.actor_lr, self.population.critic_lr, self.fitness)
        theirs = (*state.rates, state.fitness)
        if [len(values) for values in mine] != [len(values) for values in theirs]:
            raise CheckpointError(
                f"the state in {self.folder} is not of {self.config.population} agents",
                hint="an earlier checkpoint may be intact",
            )
        self.generation, self.phase = state.generation, state.phase
        self.updates_done, self.history = state.updates_done, state.history
        self.population.updates, self.population.actor_updates = state.updates
        self.population.actor_lr, self.population.critic_lr = map(np.asarray, state.rates)
        self.fitness, self.loss = np.asarray(state.fitness), state.loss
        self.best_score = -np.inf if state.best_score is None else state.best_score


def arrays_of(observation: Any) -> list[Array]:
    """The arrays that hold an observation; both sides of a batch may share them."""
    found = observation.values() if isinstance(observation, dict) else [observation]
    return [array if array.base is None else array.base for array in found]


def _check_headroom(config: TrainerConfig, task: Task, buffer_bytes: int = 0) -> None:
    """Networks that no machine could hold are refused before they are allocated."""
    size = Population.size_bytes(task.features, task.actions, config.population, config.learning)
    room = headroom()
    if room is not None and size + buffer_bytes > room.bytes:
        what = f"and the saved buffer take {format_bytes(size + buffer_bytes)}"
        raise OverBudgetError(
            f"networks and optimizer of {config.population} agents "
            f"{what if buffer_bytes else 'take ' + format_bytes(size)}, and "
            f"{format_bytes(room.bytes)} are left of {room.limit.source}",
            needed_bytes=size + buffer_bytes, limit_bytes=room.bytes,
            hint="fewer agents, or narrower layers: learning.hidden",
        )  # fmt: skip


class _Prepared:
    """Configuration and task of a checkpoint, made once for all that have the same."""

    def __init__(
        self, options: Mapping[str, Any], check: Callable[[TrainerConfig, Task], None] | None
    ) -> None:
        self._options, self._check = options, check
        self._saved: dict[str, Any] | None = None
        self._made: tuple[TrainerConfig, Task] | None = None

    def of(self, found: checkpoint.Candidate) -> tuple[TrainerConfig, Task]:
        saved = found.index.state.config
        if self._made is None or self._saved != saved:
            self._made = None
            config = self._config(found, saved)
            task = make_task(config)
            if self._check is not None:
                self._check(config, task)
            self._saved, self._made = saved, (config, task)
        return self._made

    def _config(self, found: checkpoint.Candidate, saved: dict[str, Any]) -> TrainerConfig:
        """Only a bad saved config is damage; options that contradict it are the user's error."""
        try:
            checked(saved)
        except ConfigError as error:
            raise CheckpointError(
                f"{found.path.name}: {shown(error.message)}",
                hint="an earlier checkpoint may be intact",
            ) from None
        return as_resumed(saved, self._options)


def _check_save(found: checkpoint.Candidate, config: TrainerConfig, task: Task) -> None:
    """Raise unless the saved buffer is the one that this run would make, and fits into memory."""
    saved = found.save
    streams = config.population * config.episodes
    wanted = max(config.capacity, streams) // streams * streams
    if (saved.schema, saved.environments, saved.capacity) != (task.schema, streams, wanted):
        raise CheckpointError(
            f"save {saved.number} is not the buffer of this run",
            hint="an earlier checkpoint may be intact",
        )
    _check_headroom(config, task, saved.loaded_bytes)


def _filled(
    make: Callable[..., Trainer], folder: Path, found: checkpoint.Candidate, task: Task
) -> Trainer:
    buffer = ReplayBuffer.load(
        folder / checkpoint.REPLAY, tables=task.tables, number=found.save.number
    )
    trainer = make(buffer=buffer)
    checkpoint.read_tensors(found.path, found.index, trainer.population.tensors())
    trainer.restore(found.index.state)
    return trainer
