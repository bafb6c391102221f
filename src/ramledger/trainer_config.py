"""The config of `ramledger train`: every field with its default and its range, defined once.

The trainer runs by it and the planner reads it, so it needs neither torch nor numpy.
"""

import tomllib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

from ramledger.errors import ConfigError
from ramledger.user_files import read_text

TRADING = "trading"
EXTRA_STATE = 2  # of a portfolio beside the weights of its assets: cash and drawdown
DATE, ASSET, CLOSE = "date", "asset", "close"  # columns that a market's file must have


class Learning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How an agent learns from transitions."""

    hidden: tuple[int, ...] = (64, 64)
    gamma: float = 0.99
    n_step: int = 1
    batch: int = 64
    tau: float = 0.005  # share of the way that targets follow in an update
    actor_lr: float = 1e-3
    critic_lr: float = 1e-3
    lr_spread: float = 1.0  # agents start with rates between lr / spread and lr * spread
    twin: bool = False  # TD3: two critics, the lower value counts
    policy_delay: int = 1  # TD3: critic updates for one update of the actor
    target_noise: float = 0.0  # TD3: smoothing of target actions
    action_penalty: float = 0.0  # on squared outputs before tanh: keeps it from saturating


class Evolution(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a generation becomes the next one."""

    elites: int = 2
    tournament: int = 3
    crossover: float = 0.25  # chance that a child has a second parent
    mutation: float = 0.5  # chance that a survivor which is not an elite is mutated
    strength: float = 0.05  # of a mutation, in units of a layer's root mean square
    fraction: float = 0.1  # of the weights that a scaled mutation changes
    method: str = "scaled"  # or "proximal": scaled by how much outputs depend on each weight


class Exploration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Noise while experience is collected."""

    noise: str = "gaussian"  # "ou": correlated in time, "parameter": on the weights, "none"
    sigma: float = 0.1


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What trading costs, and what may be held."""

    window: int = 32
    steps: int = 125  # of an episode
    cost: float = 0.0005  # of what is traded
    slippage: float = 0.001  # of the square of what is traded, asset by asset
    max_weight: float = 1.0  # of one asset
    reward_scale: float = 100.0  # rewards are logarithmic growth in percent


class SyntheticMarket(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The market that is traded when no data is given."""

    rows: int = 1500
    assets: int = 4
    features: int = 3
    signal: float = 0.3
    seed: int = 0


class TrainerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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
    market: SyntheticMarket = SyntheticMarket()

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
# least and most; anything else, not-a-number included, is refused
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
_RANGE_HINT = "docs/train.md lists the keys and their defaults"


FIELDS = tuple(field.name for field in msgspec.structs.fields(TrainerConfig))


def read_config(path: str | None, options: Mapping[str, Any]) -> TrainerConfig:
    """The config in a TOML file, with `options` on top."""
    return checked({**_toml(path), **options})


def checked(found: Mapping[str, Any], where: str = "config") -> TrainerConfig:
    """A config from plain data, or a ConfigError that names the field."""
    try:
        config = msgspec.convert(dict(found), TrainerConfig)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        key = place.rstrip("`").removeprefix("$").removeprefix(".")
        said = f"{message[:1].lower()}{message[1:]}"
        raise ConfigError(
            ": ".join(filter(None, (where, key, said))), hint="docs/train.md lists the keys"
        ) from None
    try:
        _check_values(config)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", hint=error.hint) from None
    return config


def as_resumed(saved: Mapping[str, Any], options: Mapping[str, Any]) -> TrainerConfig:
    """The saved config; options may change only what does not change the course of a run."""
    plain = msgspec.to_builtins(checked(saved))
    for name, value in options.items():
        if name not in MAY_CHANGE and plain.get(name) != value:
            raise ConfigError(
                f"the run was started with {name} = {plain.get(name)}, not {value}",
                hint=f"on --resume only {', '.join(sorted(MAY_CHANGE))} may change",
            )
    return checked({**plain, **options})


def to_dict(config: TrainerConfig) -> dict[str, Any]:
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


def _check_values(config: TrainerConfig) -> None:
    _check_ranges(config)
    _check_word(
        "exploration.noise", config.exploration.noise, "gaussian", "ou", "parameter", "none"
    )
    _check_word("evolution.method", config.evolution.method, "scaled", "proximal")
    if config.learners > config.population:
        raise ConfigError(
            f"learners must be at most population ({config.population}), got {config.learners}",
            hint="learners = 0 means all agents",
        )
    if config.shards > config.population:
        raise ConfigError(
            f"shards must be at most population ({config.population}), got {config.shards}",
            hint="every shard needs at least one agent",
        )
    if config.episode_steps and config.env == TRADING:
        raise ConfigError(
            f"episode_steps is for Gymnasium environments, got {config.episode_steps}",
            hint="set trading.steps for the trading environment",
        )
    if config.data and config.env != TRADING:
        raise ConfigError(
            f"data is for the trading environment, and env is {config.env!r}",
            hint="remove data, or set env = 'trading'",
        )


def _check_ranges(config: TrainerConfig) -> None:
    for name, (least, most) in RANGES.items():
        value: Any = config
        for part in name.split("."):
            value = getattr(value, part)
        if not least <= value <= most:
            raise ConfigError(
                f"{name} must be from {least:,} to {most:,}, got {value}", hint=_RANGE_HINT
            )
    for width in config.learning.hidden:
        if not 1 <= width <= MAX_WIDTH:
            raise ConfigError(
                f"every width in learning.hidden must be from 1 to {MAX_WIDTH}, got {width}",
                hint=_RANGE_HINT,
            )


def _check_word(name: str, value: str, *words: str) -> None:
    if value not in words:
        raise ConfigError(
            f"{name} must be one of {', '.join(words)}, got {value!r}", hint=_RANGE_HINT
        )
