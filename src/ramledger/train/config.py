"""Everything that a training run is told, as one frozen value; from TOML, options and defaults."""

import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from ramledger.errors import ConfigError
from ramledger.train.population import Evolution, Learning
from ramledger.train.trading import Rules

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
    for name in ("generations", "population", "episodes", "validation_episodes", "updates",
                 "capacity", "keep", "threads", "shards"):  # fmt: skip
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} is {getattr(config, name)}", hint="it is at least 1")
    if not 0 <= config.learners <= config.population:
        raise ConfigError(
            f"{config.learners} learners of {config.population} agents", hint="0 means all"
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
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no file {path}", hint="give a TOML file, or none") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", hint="docs/train.md shows one") from None


def _check_word(name: str, value: str, *words: str) -> None:
    if value not in words:
        raise ConfigError(f"{name} is {value!r}", hint=f"one of {', '.join(words)}")
