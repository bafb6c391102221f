"""Acting in numpy and in torch is the same, and agents do not depend on who acts beside them."""

import numpy as np
import pytest
import torch

from ramledger.train.population import Population, forward
from ramledger.train.rollout import FEW_STATES, LARGEST_VECTOR_PRODUCT, _acting_part
from ramledger.trainer_config import Exploration, Learning

FEATURES, ACTIONS, AGENTS = 9, 3, 4


def population(hidden: tuple[int, ...], features: int = FEATURES) -> Population:
    return Population(
        features, ACTIONS, agents=AGENTS, learners=AGENTS, learning=Learning(hidden=hidden),
        agents_per_chunk=AGENTS, seed=3,
    )  # fmt: skip


def actions(made: Population, states: np.ndarray, begin: int, end: int) -> np.ndarray:
    part = _acting_part(made, begin, end, states.shape[1], Exploration(noise="none"), None)
    return part(states[begin:end])


@pytest.mark.parametrize("episodes", [1, 2, FEW_STATES, FEW_STATES + 1])
@pytest.mark.parametrize("hidden", [(), (16,), (64, 48)])
def test_actions_are_those_of_the_networks(hidden: tuple[int, ...], episodes: int) -> None:
    made = population(hidden)
    states = np.random.default_rng(0).standard_normal((AGENTS, episodes, FEATURES), np.float32)
    wanted = forward(made.rows("actor", 0, AGENTS), torch.from_numpy(states)).tanh().numpy()
    found = actions(made, states, 0, AGENTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_products_that_would_take_several_threads_are_left_to_torch() -> None:
    features = LARGEST_VECTOR_PRODUCT // 16 + 1
    made = population((16,), features)
    states = np.random.default_rng(0).standard_normal((AGENTS, 1, features), np.float32)
    wanted = forward(made.rows("actor", 0, AGENTS), torch.from_numpy(states)).tanh().numpy()
    np.testing.assert_array_equal(actions(made, states, 0, AGENTS), wanted)


def test_an_agent_acts_the_same_alone_and_beside_others() -> None:
    made = population((64, 48))
    states = np.random.default_rng(0).standard_normal((AGENTS, 1, FEATURES), np.float32)
    together = actions(made, states, 0, AGENTS)
    alone = np.concatenate([actions(made, states, row, row + 1) for row in range(AGENTS)])
    np.testing.assert_array_equal(alone, together)


def test_actions_follow_weights_that_change_in_place() -> None:
    made = population((16,))
    states = np.ones((AGENTS, 1, FEATURES), np.float32)
    part = _acting_part(made, 0, AGENTS, 1, Exploration(noise="none"), None)
    before = part(states)
    made.copy_row(0, 1)
    after = part(states)
    np.testing.assert_array_equal(after[1], before[0])
    assert (before[1] != before[0]).any()
