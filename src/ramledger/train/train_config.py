"""Everything that a training run is told, as one frozen value; from TOML, options and defaults."""

import tomllib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

from ramledger.errors import ConfigError
from ramledger.train.population import Evolution, Learning
from ramledger.train.trading import Rules
from ramledger.user_files import read_text

TRADING = "trading"


class MadeUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The synthetic market that is traded when no data is given."""

    rows: int = 1500
    assets: int = 4
    features: int = 3
    signal: float = 0.3
    seed: int = 0


class Exploration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Noise while experience is collected."""

    noise: str = "gaussian"  # "ou": correlated in time, "parameter": on the weights, "none"
    sigma: float = 0.1


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One training run."""

    env: str = TRADING  # or the id of a Gymnasium environment
    data: str = ""  # a CSV or Parquet file for the trading environment
    seed: int = 0
    generations: int = 25
    population: int = 16
    learners: int = 0  # agents that learn by gradients; 0: all of them
    episodes: int = 1  # an agent and generation, in the training environment
    validation_episodes: int = 2
    episode_steps: int = 0  # after which a Gymnasium episode is cut; 0: as the environment has it
    updates: int = 64  # of every learner in a generation
    capacity: int = 50_000  # transitions in the replay buffer
    shared_batch: bool = False  # one minibatch for all agents: windows are large
    agents_per_chunk: int = 0  # updated together: fewer need less memory; 0: all of them
    shards: int = 1  # parts that the population is computed in: Ray actors, one a part
    threads: int = 1
    keep: int = 2  # checkpoints
    learning: Learning = Learning()
    evolution: Evolution = Evolution()
    exploration: Exploration = Exploration()
    trading: Rules = Rules()
    market: MadeUp = MadeUp()

    @property
    def learning_agents(self) -> int:
        return self.learners or self.population

    @property
    def chunk(self) -> int:
        return self.agents_per_chunk or self.learning_agents

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Rows of every shard; sizes differ by one at most."""
        bounds = [number * self.population // self.shards for number in range(self.shards + 1)]
        return list(pairwise(bounds))


MANY = 10**9
# least and most; what is not between them, not-a-number included, is refused
RANGES: dict[str, tuple[float, float]] = {
    "seed": (0, 2**63), "generations": (1, MANY), "population": (1, 100_000),
    "learners": (0, 100_000), "episodes": (1, 100_000), "validation_episodes": (1, 100_000),
    "episode_steps": (0, MANY), "updates": (1, MANY), "capacity": (1, 2**40),
    "agents_per_chunk": (0, 100_000), "shards": (1, 100_000), "threads": (1, 1024),
    "keep": (1, MANY),
    "learning.gamma": (0, 1), "learning.n_step": (1, 10_000), "learning.batch": (1, 10**7),
    "learning.tau": (0, 1), "learning.actor_lr": (0, 100), "learning.critic_lr": (0, 100),
    "learning.lr_spread": (1, 1000), "learning.policy_delay": (1, MANY),
    "learning.target_noise": (0, 10), "learning.action_penalty": (0, 1e6),
    "evolution.elites": (0, 100_000), "evolution.tournament": (1, 100_000),
    "evolution.crossover": (0, 1), "evolution.mutation": (0, 1), "evolution.strength": (0, 100),
    "evolution.fraction": (0, 1), "exploration.sigma": (0, 100),
    "trading.window": (1, MANY), "trading.steps": (1, MANY), "trading.cost": (0, 1),
    "trading.slippage": (0, 1), "trading.max_weight": (1e-6, 1),
    "trading.reward_scale": (1e-6, 1e6), "market.rows": (2, MANY), "market.assets": (1, 10**6),
    "market.features": (2, 10**6), "market.signal": (0, 1), "market.seed": (0, 2**63),
}  # fmt: skip
MAX_WIDTH = 1 << 16
MAX_FILE_BYTES = 256 << 10

MAY_CHANGE = {"generations", "keep", "threads"}  # when a run is resumed


def read_config(path: str | None, options: Mapping[str, Any]) -> Config:
    """A TOML file, with `options` in place of what it says."""
    return checked({**_toml(path), **options})


def checked(found: Mapping[str, Any]) -> Config:
    """A configuration from plain data, or what is wrong with it."""
    try:
        config = msgspec.convert(dict(found), Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"configuration: {error}", hint="docs/train.md lists the keys") from None
    _check_ranges(config)
    if not 0 <= config.learners <= config.population:
        raise ConfigError(
            f"{config.learners} learners of {config.population} agents", hint="0 means all"
        )
    if config.episode_steps < 0 or (config.episode_steps and config.env == TRADING):
        raise ConfigError(
            f"episode_steps is {config.episode_steps}",
            hint="at least 1, of a Gymnasium environment; for trading there is trading.steps",
        )
    if config.shards > config.population:
        raise ConfigError(
            f"{config.shards} shards of {config.population} agents", hint="an agent is in one shard"
        )
    _check_word(
        "exploration.noise", config.exploration.noise, "gaussian", "ou", "parameter", "none"
    )
    _check_word("evolution.method", config.evolution.method, "scaled", "proximal")
    if config.data and config.env != TRADING:
        raise ConfigError(f"data for {config.env!r}", hint="data is for the trading environment")
    return config


def as_resumed(saved: Mapping[str, Any], options: Mapping[str, Any]) -> Config:
    """The saved configuration; only what does not change the course of a run may differ."""
    plain = msgspec.to_builtins(checked(saved))
    for name, value in options.items():
        if name not in MAY_CHANGE and plain.get(name) != value:
            raise ConfigError(
                f"the run was started with {name} = {plain.get(name)}, not {value}",
                hint=f"on --resume only {', '.join(sorted(MAY_CHANGE))} may change",
            )
    return checked({**plain, **options})


def to_dict(config: Config) -> dict[str, Any]:
    """Plain data for JSON."""
    found: dict[str, Any] = msgspec.to_builtins(config)
    return found


def _toml(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    hint = "give a TOML file, or none"
    try:
        return tomllib.loads(read_text(path, MAX_FILE_BYTES, ConfigError, hint, "a config"))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", hint="docs/train.md shows one") from None


def _check_ranges(config: Config) -> None:
    for name, (least, most) in RANGES.items():
        value: Any = config
        for part in name.split("."):
            value = getattr(value, part)
        if not least <= value <= most:
            hint = f"it is at least {least}" if most >= MANY else f"from {least} to {most}"
            raise ConfigError(f"{name} is {value}", hint=hint)
    for width in config.learning.hidden:
        if not 1 <= width <= MAX_WIDTH:
            raise ConfigError(f"a layer of {width}", hint=f"learning.hidden: 1 to {MAX_WIDTH} each")


def _check_word(name: str, value: str, *words: str) -> None:
    if value not in words:
        raise ConfigError(f"{name} is {value!r}", hint=f"one of {', '.join(words)}")
