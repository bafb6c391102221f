"""Trading a portfolio: many accounts side by side in numpy, and one of them as a Gymnasium env.

At row t the agent sees the table up to t and its own portfolio, chooses weights, pays for the
change, and earns what the assets return from t to t + 1.
"""

from typing import Any

import gymnasium
import numpy as np

from ramledger import ConfigError
from ramledger.train.market import Market, Span
from ramledger.trainer_config import EXTRA_STATE, Rules

Array = np.ndarray[Any, np.dtype[Any]]
Observation = dict[str, Array]

__all__ = ["Rules", "TradingEnv", "TradingEnvironment"]


class TradingEnvironment:
    """`count` accounts over one span of a market, stepped together. Nothing is random in it."""

    def __init__(self, market: Market, span: Span, rules: Rules, count: int) -> None:
        # a decision at t is paid with the return of t + 1, which must be within the span
        self.first = max(span.begin, rules.window - 1)
        self.last = span.end - 1 - rules.steps
        if self.last < self.first:
            raise ConfigError(
                f"{span.end - span.begin} rows are too few for a window of {rules.window} "
                f"and episodes of {rules.steps} steps",
                hint="use more data, a shorter window, or shorter episodes",
            )
        self.market, self.rules, self.count = market, rules, count
        assets = len(market.assets)
        self.position = np.zeros(count, np.int64)
        self.weights = np.zeros((count, assets), np.float32)
        self.value = np.ones(count, np.float32)
        self.peak = np.ones(count, np.float32)
        self.steps = np.zeros(count, np.int64)

    @property
    def actions(self) -> int:
        return len(self.market.assets)

    def starts(self, count: int, rng: np.random.Generator | None = None) -> Array:
        """Rows where episodes begin: drawn, or spread evenly."""
        if rng is not None:
            return rng.integers(self.first, self.last + 1, count)
        return np.linspace(self.first, self.last, count).astype(np.int64)

    def begin(self, episodes: int, rng: np.random.Generator | None = None) -> Observation:
        """Episodes for every agent, at the same rows for all, so that they can be compared."""
        return self.reset(np.tile(self.starts(episodes, rng), self.count // episodes))

    def reset(self, starts: Array) -> Observation:
        """All accounts in cash, at these rows."""
        self.position[:] = starts
        self.weights[:] = 0
        self.value[:] = self.peak[:] = 1
        self.steps[:] = 0
        return self.observe()

    def observe(self) -> Observation:
        """Where each account is in the table, and its portfolio: weights, cash, drawdown."""
        portfolio = np.empty((self.count, self.actions + EXTRA_STATE), np.float32)
        portfolio[:, : self.actions] = self.weights
        portfolio[:, -2] = 1 - np.add.reduce(self.weights, 1)
        portfolio[:, -1] = self.value / self.peak - 1
        return {"market": self.position.astype(np.int32), "portfolio": portfolio}

    def target_weights(self, action: Array) -> Array:
        """Actions in -1 … 1 as weights: none to the limit of each; never more than all in sum."""
        wanted = np.maximum(np.minimum(action, 1), -1, dtype=np.float32)
        wanted += 1
        wanted *= np.float32(0.5)
        wanted *= np.float32(self.rules.max_weight)
        total = np.add.reduce(wanted, 1, keepdims=True)
        wanted /= np.maximum(total, 1, out=total)
        return wanted

    def step(self, action: Array) -> tuple[Observation, Array, Array, Array]:
        """Observation, reward, terminated, truncated; an episode is cut after its steps."""
        target = self.target_weights(action)
        change = np.abs(target - self.weights)
        cost = np.float32(self.rules.cost) * np.add.reduce(change, 1)
        cost += np.float32(self.rules.slippage) * np.add.reduce(np.square(change), 1)
        self.position += 1
        self.steps += 1
        returns = self.market.returns.take(self.position, 0)
        earned = 1 + np.add.reduce(target * returns, 1)
        growth = np.maximum((1 - cost) * earned, np.float32(1e-6))
        self.weights = target * (1 + returns) / earned[:, None]
        self.value = self.value * growth
        self.peak = np.maximum(self.peak, self.value)
        reward = np.log(growth) * np.float32(self.rules.reward_scale)
        truncated = self.steps >= self.rules.steps
        return self.observe(), reward, np.zeros(self.count, bool), truncated


class TradingEnv(gymnasium.Env[Observation, Array]):
    """One account with Gymnasium's interface; observations hold the window itself, as a view."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, market: Market, rules: Rules | None = None, span: Span | None = None
    ) -> None:
        self._rules = rules or Rules()
        self._inner = TradingEnvironment(market, span or market.train, self._rules, 1)
        table = market.table
        shape = (self._rules.window, *table.shape[1:])
        state = self._inner.actions + EXTRA_STATE
        self.observation_space = gymnasium.spaces.Dict(
            {
                "market": gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float32),
                "portfolio": gymnasium.spaces.Box(-1.0, 2.0, (state,), np.float32),
            }
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self._inner.actions,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        given = (options or {}).get("start")
        starts = self._inner.starts(1, self.np_random) if given is None else np.asarray([given])
        return self._shown(self._inner.reset(starts)), {}

    def step(self, action: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        found, reward, terminated, truncated = self._inner.step(np.asarray(action)[None])
        info = {"value": float(self._inner.value[0])}
        done = bool(terminated[0]), bool(truncated[0])
        return self._shown(found), float(reward[0]), *done, info

    def _shown(self, found: Observation) -> Observation:
        end = int(found["market"][0]) + 1
        window = self._inner.market.table[end - self._rules.window : end]
        return {"market": window, "portfolio": found["portfolio"][0]}
