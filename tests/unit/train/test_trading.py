"""The trading environment: conformant, without look-ahead, and the same alone and side by side."""

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from ramledger.errors import ConfigError
from ramledger.train.market import Span, synthetic_market
from ramledger.train.trading import Rules, TradingEnv, TradingEnvironment

MARKET = synthetic_market(rows=300, assets=5, features=3, seed=1)
RULES = Rules(window=12, steps=20)


def test_gymnasium_finds_nothing_to_complain_about() -> None:
    with warnings.catch_warnings():
        # its features are normalized, not bounded
        warnings.filterwarnings("ignore", message=".*(infinity|spec).*")
        gymnasium_check(TradingEnv(MARKET, RULES), skip_render_check=True)


def test_neither_does_sb3() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        # a window looks like an image to it
        warnings.filterwarnings("ignore", message=".*image.*")
        warnings.filterwarnings("ignore", message=".*[Tt]he minimal resolution.*")
        checker.check_env(TradingEnv(MARKET, RULES))


def test_many_accounts_are_bit_identical_to_each_alone() -> None:
    count = 7
    rng = np.random.default_rng(0)
    together = TradingEnvironment(MARKET, MARKET.train, RULES, count)
    starts = together.starts(count, rng)
    seen = together.reset(starts)
    alone = [TradingEnv(MARKET, RULES) for _ in range(count)]
    for number, env in enumerate(alone):
        first, _ = env.reset(options={"start": starts[number]})
        assert first["portfolio"].tobytes() == seen["portfolio"][number].tobytes()
    for _ in range(RULES.steps):
        actions = rng.uniform(-1, 1, (count, 5)).astype(np.float32)
        seen, reward, terminated, truncated = together.step(actions)
        for number, env in enumerate(alone):
            theirs, their_reward, ended, cut, info = env.step(actions[number])
            assert theirs["portfolio"].tobytes() == seen["portfolio"][number].tobytes()
            end = seen["market"][number] + 1
            assert theirs["market"].tobytes() == MARKET.table[end - 12 : end].tobytes()
            assert their_reward == float(reward[number])
            assert (ended, cut) == (terminated[number], truncated[number])
            assert info["value"] == float(together.value[number])
    assert truncated.all() and not terminated.any()


def run(market: Any, start: int, actions: np.ndarray[Any, Any]) -> list[Any]:
    env = TradingEnv(market, RULES)
    found: list[Any] = [env.reset(options={"start": start})[0]]
    for action in actions:
        observation, reward, *_ = env.step(action)
        found.append((observation, reward))
    return found


def test_the_future_cannot_be_seen() -> None:
    start, changed = 40, 50
    table, returns = MARKET.table.copy(), MARKET.returns.copy()
    table[changed:] += 1
    returns[changed:] += 0.01
    other = dataclasses.replace(MARKET, table=table, returns=returns)
    actions = np.random.default_rng(0).uniform(-1, 1, (15, 5)).astype(np.float32)
    one, two = run(MARKET, start, actions), run(other, start, actions)
    # the step from row t to t + 1 is paid with the return of t + 1
    same = changed - start - 1
    for (obs, reward), (other_obs, other_reward) in zip(one[1:], two[1:], strict=True):
        if same > 0:
            assert np.array_equal(obs["market"], other_obs["market"]) and reward == other_reward
        same -= 1
    assert one[changed - start][1] != two[changed - start][1]


def test_money_is_neither_made_nor_lost_but_by_returns_and_costs() -> None:
    free = Rules(window=12, steps=20, cost=0.0, slippage=0.0)
    env = TradingEnvironment(MARKET, MARKET.train, free, 1)
    env.reset(np.asarray([30]))
    env.step(np.ones((1, 5), np.float32))
    assert env.value[0] == pytest.approx(1 + MARKET.returns[31].mean(), rel=1e-6)
    env.reset(np.asarray([30]))
    for _ in range(5):
        _, reward, _, _ = env.step(np.full((1, 5), -1, np.float32))
        assert (env.value[0], reward[0]) == (1, 0)
    paid = TradingEnvironment(MARKET, MARKET.train, Rules(12, 20, 0.01, 0.02), 1)
    paid.reset(np.asarray([30]))
    _, reward, _, _ = paid.step(np.ones((1, 5), np.float32))
    cost = 0.01 * 1 + 0.02 * 5 * 0.2**2
    assert reward[0] == pytest.approx(
        100 * np.log((1 - cost) * (1 + MARKET.returns[31].mean())), rel=1e-4
    )


def test_no_asset_exceeds_its_limit() -> None:
    env = TradingEnvironment(MARKET, MARKET.train, Rules(12, 20, max_weight=0.1), 3)
    weights = env.target_weights(np.ones((3, 5), np.float32))
    assert np.allclose(weights, 0.1)
    one = np.full((1, 5), -1, np.float32)
    one[0, 2] = 1
    assert env.target_weights(one)[0].tolist() == pytest.approx([0, 0, 0.1, 0, 0])


def test_training_never_touches_validation_rows() -> None:
    env = TradingEnvironment(MARKET, MARKET.train, RULES, 1)
    env.reset(np.asarray([env.last]))
    for _ in range(RULES.steps):
        found, _, _, truncated = env.step(np.ones((1, 5), np.float32))
    assert truncated.all()
    assert found["market"][0] == MARKET.train.end - 1 < MARKET.validation.begin


def test_a_span_that_is_too_short_is_refused() -> None:
    with pytest.raises(ConfigError, match="too few"):
        TradingEnvironment(MARKET, Span(0, 25), RULES, 1)
