"""What is trained on: the trading environment, or any Gymnasium environment with a Box of actions.

A task has one training and one validation environment, made once; what a transition consists of;
and how an observation becomes the numbers that networks see.
"""

from typing import Any, Protocol

import gymnasium
import numpy as np

from ramledger import ConfigError, OverBudgetError, headroom
from ramledger.replay import Field, Frames, Schema, TableWindow
from ramledger.train.market import Market, read_market, synthetic_market
from ramledger.train.small_images import STACK, SmallFrames, is_image
from ramledger.train.trading import TradingEnvironment
from ramledger.trainer_config import EXTRA_STATE, TRADING, TrainerConfig
from ramledger.units import format_bytes

Array = np.ndarray[Any, np.dtype[Any]]
VALIDATION_SEED = 0x7A11D


class Environment(Protocol):
    """Episodes side by side: those of agent 0, then of agent 1, … Actions are in -1 … 1."""

    count: int

    def begin(self, episodes: int, rng: np.random.Generator | None = None) -> Any: ...

    def step(self, action: Array) -> tuple[Any, Array, Array, Array]: ...


class Task(Protocol):
    """One training and one validation environment, and how observations are encoded."""

    actions: int
    features: int
    schema: Schema
    tables: dict[str, Array]

    @property
    def training(self) -> Environment: ...

    @property
    def validation(self) -> Environment: ...

    def encode(self, observation: Any) -> Array: ...

    def environment(self, span: str, episodes: int) -> Environment: ...


class TradingTask:
    """Windows over a market. Networks see means over stretches of it, and the portfolio.

    A layer on these means is a convolution over time with a kernel that is constant within each
    stretch: 1, 2, 4, … rows back to the start of the window. Agents need no copies of the window.
    """

    def __init__(self, config: TrainerConfig, market: Market) -> None:
        self.market, self._rules = market, config.trading
        window = config.trading.window
        self.actions = len(market.assets)
        # a view: the same memory for environments, replay and networks
        self._rows = market.table.reshape(len(market.table), -1)
        ends = [0]
        while ends[-1] < window:
            ends.append(min(ends[-1] * 2 + 1, window))
        begins = [window - end for end in ends]
        self._cuts = np.asarray(begins[:0:-1])
        self._scale = (1 / np.diff([*self._cuts, window])).astype(np.float32)[:, None]
        self.features = len(self._cuts) * self._rows.shape[1] + self.actions + EXTRA_STATE
        self.schema = Schema(
            {
                "market": TableWindow("market", window),
                "portfolio": Field((self.actions + EXTRA_STATE,)),
            },
            action=Field((self.actions,)),
        )
        self.tables = {"market": self._rows}
        agents = config.population
        self.training = TradingEnvironment(
            market, market.train, self._rules, agents * config.episodes
        )
        self.validation = TradingEnvironment(
            market, market.validation, self._rules, agents * config.validation_episodes
        )

    def environment(self, span: str, episodes: int) -> TradingEnvironment:
        return TradingEnvironment(self.market, getattr(self.market, span), self._rules, episodes)

    def encode(self, observation: Any) -> Array:
        windows, portfolio = observation["market"], observation["portfolio"]
        encoded = np.empty((len(portfolio), self.features), np.float32)
        size = self.features - portfolio.shape[1]
        if windows.ndim == 1:
            # agents pass through the same rows: each row is summed up once
            for position in set(windows.tolist()):
                begin = position + 1 - self._rules.window
                window = self._rows[None, begin : position + 1]
                encoded[windows == position, :size] = self._summary(window)
        else:
            encoded[:, :size] = self._summary(windows)
        encoded[:, size:] = portfolio
        return encoded

    def _summary(self, windows: Array) -> Array:
        means = np.add.reduceat(windows, self._cuts, axis=1)
        means *= self._scale
        return means.reshape(len(windows), -1)


class GymnasiumEnvironment:
    """Episodes of a Gymnasium environment, each in its own instance; a finished one waits."""

    def __init__(self, make: Any, count: int) -> None:
        self.count = count
        self._envs = [make() for _ in range(count)]
        self._space = self._envs[0].action_space
        self._is_over = np.zeros(count, bool)
        seen = self._envs[0].observation_space
        dtype = np.uint8 if seen.dtype == np.uint8 else np.float32
        self._seen: Array = np.zeros((count, *seen.shape), dtype)

    def begin(self, episodes: int, rng: np.random.Generator | None = None) -> Array:
        drawn = rng or np.random.default_rng(VALIDATION_SEED)
        seeds = np.tile(drawn.integers(0, 1 << 31, episodes), self.count // episodes)
        for at, env in enumerate(self._envs):
            self._seen[at] = env.reset(seed=int(seeds[at]))[0]
        self._is_over[:] = False
        return self._seen.copy()

    def step(self, action: Array) -> tuple[Array, Array, Array, Array]:
        reward = np.zeros(self.count, np.float32)
        terminated, truncated = np.zeros(self.count, bool), np.zeros(self.count, bool)
        low, high = self._space.low, self._space.high
        scaled = low + (np.clip(action, -1, 1) + 1) * 0.5 * (high - low)
        scaled = scaled.reshape(self.count, *self._space.shape).astype(self._space.dtype)
        for at, env in enumerate(self._envs):
            if not self._is_over[at]:
                found = env.step(scaled[at])
                self._seen[at], reward[at], terminated[at], truncated[at] = found[:4]
        self._is_over |= terminated | truncated
        return self._seen.copy(), reward, terminated, truncated


class GymnasiumTask:
    """An environment by its id. Observations are flattened for the networks, images made small."""

    def __init__(self, config: TrainerConfig) -> None:
        self._id, self._steps = config.env, config.episode_steps
        agents = config.population
        self.training = GymnasiumEnvironment(self._make, agents * config.episodes)
        self.validation = GymnasiumEnvironment(self._make, agents * config.validation_episodes)
        probe = self._make()
        observations, actions = probe.observation_space, probe.action_space
        probe.close()
        self.actions = int(np.prod(actions.shape))
        self.features = int(np.prod(observations.shape))
        self._is_image = isinstance(probe, SmallFrames)
        seen = Frames(observations.shape[1:], stack=STACK) if self._is_image else (
            Field(observations.shape))  # fmt: skip
        self.schema = Schema(seen, action=Field((self.actions,)))
        self.tables: dict[str, Array] = {}

    def _make(self) -> Any:
        try:
            env = gymnasium.make(self._id, **self._options())
        except (gymnasium.error.Error, ImportError) as error:
            raise ConfigError(
                f"cannot make {self._id!r}: {error}", hint="`--env trading` needs nothing else"
            ) from None
        box = gymnasium.spaces.Box
        spaces = (env.observation_space, env.action_space)
        if (
            not all(isinstance(space, box) for space in spaces)
            or not np.isfinite(
                [spaces[1].low, spaces[1].high]  # type: ignore[attr-defined]
            ).all()
        ):
            raise ConfigError(
                f"{self._id!r} has observations {spaces[0]} and actions {spaces[1]}",
                hint="these agents need a Box of observations and a bounded Box of actions",
            )
        return SmallFrames(env) if is_image(env.observation_space) else env

    def _options(self) -> dict[str, Any]:
        found: dict[str, Any] = {"max_episode_steps": self._steps} if self._steps else {}
        if self._id.startswith("ALE/"):
            import ale_py

            gymnasium.register_envs(ale_py)
            found["continuous"] = True  # a joystick with angle and radius, and a button
        return found

    def environment(self, span: str, episodes: int) -> GymnasiumEnvironment:
        return GymnasiumEnvironment(self._make, episodes)

    def encode(self, observation: Any) -> Array:
        found = np.asarray(observation, np.float32).reshape(len(observation), -1)
        return found * np.float32(1 / 255) if self._is_image else found


def make_task(config: TrainerConfig) -> Task:
    """The task that a configuration names."""
    if config.env != TRADING:
        return GymnasiumTask(config)
    if config.data:
        return TradingTask(config, read_market(config.data))
    made = config.market
    _check_headroom(made.rows * made.assets * (made.features + 4) * 8)
    market = synthetic_market(
        rows=made.rows, assets=made.assets, features=made.features, signal=made.signal,
        seed=made.seed,
    )  # fmt: skip
    return TradingTask(config, market)


def _check_headroom(size_bytes: int) -> None:
    """A market that no machine could hold is refused before it is made."""
    room = headroom()
    if room is not None and size_bytes > room.bytes:
        raise OverBudgetError(
            f"making the market takes {format_bytes(size_bytes)}, and {format_bytes(room.bytes)} "
            f"are left of {room.limit.source}",
            needed_bytes=size_bytes, limit_bytes=room.bytes,
            hint="fewer rows, assets or features: market.rows, market.assets, market.features",
        )  # fmt: skip
