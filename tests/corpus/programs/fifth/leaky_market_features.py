"""A weak cache of features never lets a market go, because each entry refers back to its market."""

from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np


class Market:
    """One randomized world of correlated asset prices."""

    def __init__(self, rng: Any, days: int, assets: int) -> None:
        loadings = rng.normal(0.0, 0.01, (4, assets))
        factors = rng.standard_normal((days, 4)) @ loadings
        noise = rng.normal(0.0, 0.005, (days, assets))
        self.prices = np.exp(np.cumsum(factors + noise, axis=0))

    def returns(self, day: int) -> Any:
        return self.prices[day + 1] / self.prices[day] - 1.0


class Features:
    """Signals of a market, made once and read day by day."""

    def __init__(self, market: Market) -> None:
        self.market = market
        logs = np.log(market.prices)
        totals = np.cumsum(logs, axis=0)
        self.trend = logs.copy()
        self.trend[20:] -= (totals[20:] - totals[:-20]) / 20.0

    def at(self, day: int) -> Any:
        yesterday = self.market.prices[max(day - 1, 0)]
        return np.concatenate([self.trend[day], self.market.prices[day] / yesterday - 1.0])


_cache: WeakKeyDictionary[Market, Features] = WeakKeyDictionary()


def features_of(market: Market) -> Features:
    if market not in _cache:
        _cache[market] = Features(market)
    return _cache[market]


def randomize(rng: Any, count: int) -> list[Market]:
    markets = [Market(rng, 1500, 80) for _ in range(count)]
    for market in markets:
        features_of(market)
    return markets


def backtest(weights: Any, market: Market) -> float:
    features, wealth = features_of(market), 0.0
    for day in range(1499):
        position = np.tanh(features.at(day) @ weights)
        wealth += float(position @ market.returns(day)) - 1e-4 * float(np.abs(position).sum())
    return wealth


def improve(rng: Any, weights: Any, markets: list[Market]) -> Any:
    noise = rng.standard_normal((4, *weights.shape))
    gains = np.array(
        [np.mean([backtest(weights + 0.1 * shift, m) for m in markets]) for shift in noise]
    )
    scaled = (gains - gains.mean()) / (gains.std() + 1e-8)
    return weights + 0.02 * np.tensordot(scaled, noise, axes=1)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(12)
    weights = np.zeros((160, 80))
    for generation in range(32):
        with phase(generation, "randomize"):
            markets = randomize(rng, 5)
        with phase(generation, "improve"):
            weights = improve(rng, weights, markets)


if __name__ == "__main__":
    run()
