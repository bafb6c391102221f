"""One training with every default filled in, and what its framework adds: the formulas' input."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ramledger.errors import ConfigError
from ramledger.plan.budget import Row
from ramledger.plan.formulas.algorithms import OPTIMIZER_COPIES, Algorithm, common_name
from ramledger.plan.formulas.networks import Extractor, Modules
from ramledger.plan.formulas.spaces import Action, Observation
from ramledger.plan.plan_config import Config, FrameworkName

if TYPE_CHECKING:
    from ramledger.plan.formulas.buffers import Storage
    from ramledger.plan.formulas.process_costs import Workers
    from ramledger.plan.formulas.update_memory import Update


@dataclass(frozen=True, slots=True)
class Framework:
    """What differs from framework to framework; every module of plan/frameworks/ defines one.

    Functions that are None leave the common formula in force.
    """

    name: FrameworkName
    algorithms: tuple[Algorithm, ...]
    import_mb: float
    """What its import takes beyond Python, numpy and torch."""
    storage: "Callable[[Job], Storage]"
    """The buffer: a rollout of on-policy algorithms, replay of the others."""
    module: str = ""
    """What `--calibrate` imports to measure it; nothing: it is estimated."""
    installed_extras: Callable[[], tuple[str, ...]] = tuple
    """Libraries that it would import here by itself."""
    extra_imports: "Callable[[Job], dict[str, int]] | None" = None
    """Code that is loaded for this training alone, in bytes."""
    workers: "Callable[[Job, int], Workers | None] | None" = None
    """Processes that it starts, given what a fresh child takes; None: as for the others."""
    extractor: Callable[[Config, Observation], Extractor] | None = None
    network_rows: "Callable[[Job], Iterator[Row]] | None" = None
    """Networks, optimizer and checkpoints, in place of the common rows."""
    worker_rows: "Callable[[Job, Storage], Iterator[Row]] | None" = None
    """What its workers share, beside the common rows."""
    update: "Callable[[Job], Update] | None" = None
    imports_optimizer: bool = True
    """Whether it makes a torch.optim optimizer, whose first constructor imports much."""
    n_steps_of_all_envs: bool = False
    envs_in_main_process: bool = True
    chooses_cnn_by_policy: bool = False
    """Whether the policy's name decides on a CNN; otherwise images get one."""
    orthogonal_weights: bool = False
    """Whether on-policy networks are initialized orthogonally, which loads LAPACK's code."""
    compares_quantiles: bool = False
    critic_heads: bool = False
    """One critic network with a head for each critic, instead of several networks."""
    batches_are_floats: bool = False
    """Whether minibatches hold observations as float32, whatever the environment gives."""

    def algorithm(self, name: str, where: str = "algorithm") -> Algorithm:
        """The algorithm of that name, however it is capitalized."""
        table = {entry.name.lower(): entry for entry in self.algorithms}
        wanted = common_name(name)
        if wanted in table:
            return table[wanted]
        from difflib import get_close_matches

        near = get_close_matches(wanted, table, 1)
        known = ", ".join(entry.name for entry in self.algorithms)
        raise ConfigError(
            f"{where}: unknown algorithm {name!r} for {self.name}",
            hint=f"did you mean {table[near[0]].name}?" if near else f"known: {known}",
        )


@dataclass(frozen=True, slots=True)
class Job:
    """One training, complete."""

    config: Config
    framework: Framework
    algorithm: Algorithm
    observation: Observation
    action: Action
    modules: Modules
    n_steps: int
    batch_size: int
    n_epochs: int
    buffer_size: int
    learning_starts: int
    train_freq: int
    gradient_steps: int
    total_steps: int | None
    env_bytes: int
    assumed: tuple[str, ...] = ()

    @property
    def n_envs(self) -> int:
        return self.config.n_envs

    @property
    def rollout_steps(self) -> int:
        """Transitions in one rollout, over all environments."""
        return self.n_steps * (1 if self.framework.n_steps_of_all_envs else self.n_envs)

    @property
    def stored_observation_bytes(self) -> int:
        return sum(box.stored_bytes for box in self.observation.values())

    @property
    def observation_elements(self) -> int:
        return sum(box.elements for box in self.observation.values())

    @property
    def effective_batch(self) -> int:
        """What one update really works on: never more than an on-policy buffer holds."""
        if self.algorithm.is_on_policy:
            return min(self.batch_size or self.rollout_steps, self.rollout_steps)
        return self.batch_size

    @property
    def optimizer_copies(self) -> int:
        return OPTIMIZER_COPIES[self.config.optimizer or self.algorithm.optimizer]

    @property
    def n_critics(self) -> int:
        return self.config.n_critics or self.algorithm.n_critics

    @property
    def has_cnn(self) -> bool:
        return bool(self.modules.extractor.convolutions)
