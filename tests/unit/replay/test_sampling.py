"""n-step returns, sequences, priorities and hindsight against plain loops over whole episodes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger import ConfigError
from ramledger.replay import Field, Goals, Hindsight, Prioritized, ReplayBuffer, Schema
from tests.support.naive_buffer import NaiveBuffer, Step

ACTION = np.zeros(1, np.float32)
AHEAD = np.array([0, 1], np.float32)
SCHEMA = Schema(Field((2,)), action=Field((1,)))


def lived(
    lengths: list[int], capacity: int, n_envs: int = 1, **arguments: Any
) -> tuple[ReplayBuffer, NaiveBuffer]:
    """Episodes of these lengths, every second one truncated; rewards count steps."""
    buffer = ReplayBuffer(SCHEMA, capacity, n_envs=n_envs, seed=1, **arguments)
    naive = NaiveBuffer(capacity // n_envs, n_envs)
    number = 0
    for episode, length in enumerate(lengths):
        env = episode % n_envs
        for at in range(length):
            here = np.array([episode, at], np.float32)
            ends = at == length - 1
            step = Step(here, ACTION, float(number), here + AHEAD,
                        ends and episode % 2 == 0, ends and episode % 2 == 1)  # fmt: skip
            number += 1
            naive.add(env, step)
            buffer.add(step.obs, ACTION, step.reward, step.next_obs, step.terminated,
                       step.truncated, env=env)  # fmt: skip
    return buffer, naive


def places(buffer: ReplayBuffer, naive: NaiveBuffer) -> dict[int, tuple[int, int]]:
    """Place -> (environment, position in the environment's list)."""
    pairs = [(env, at) for env, steps in enumerate(naive.stored()) for at in range(len(steps))]
    return dict(zip(buffer.ordered().tolist(), pairs, strict=True))


def ahead(steps: list[Step], at: int, count: int) -> list[Step]:
    """Up to `count` steps of one episode."""
    found = []
    for step in steps[at : at + count]:
        found.append(step)
        if step.terminated or step.truncated:
            break
    return found


lengths = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(lengths, st.integers(1, 40), st.integers(1, 2), st.integers(1, 6))
def test_n_step_returns(episodes: list[int], capacity: int, n_envs: int, n_step: int) -> None:
    buffer, naive = lived(episodes, max(capacity, n_envs), n_envs)
    batch = buffer.sample(20, n_step=n_step, gamma=0.9)
    where = places(buffer, naive)
    stored = naive.stored()
    for number, place in enumerate(batch.index.tolist()):
        env, at = where[place]
        steps = ahead(stored[env], at, n_step)
        total = sum(0.9**power * step.reward for power, step in enumerate(steps))
        assert batch.reward[number] == pytest.approx(total, rel=1e-5)
        assert np.array_equal(np.asarray(batch.obs)[number], steps[0].obs)
        assert np.array_equal(np.asarray(batch.next_obs)[number], steps[-1].next_obs)
        assert batch.terminated[number] == steps[-1].terminated
        assert batch.truncated[number] == steps[-1].truncated
        if n_step > 1:
            assert batch.discount is not None
            assert batch.discount[number] == pytest.approx(0.9 ** len(steps), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(lengths, st.integers(1, 40), st.integers(1, 2), st.integers(1, 12))
def test_sequences(episodes: list[int], capacity: int, n_envs: int, length: int) -> None:
    buffer, naive = lived(episodes, max(capacity, n_envs), n_envs)
    found = buffer.sample_sequences(10, length)
    where = places(buffer, naive)
    stored = naive.stored()
    assert found.mask.shape == found.reward.shape == (10, length)
    for number in range(10):
        env, at = where[int(found.index[number, 0])]
        steps = ahead(stored[env], at, length)
        assert found.mask[number].tolist() == [True] * len(steps) + [False] * (length - len(steps))
        for time, step in enumerate(steps):
            assert found.reward[number, time] == step.reward
            assert np.array_equal(np.asarray(found.obs)[number, time], step.obs)
            assert np.array_equal(np.asarray(found.next_obs)[number, time], step.next_obs)


def test_a_sequence_does_not_cross_a_reset_that_nobody_mentioned() -> None:
    buffer = ReplayBuffer(SCHEMA, 10)
    for here in ([0, 0], [0, 1], [7, 0], [7, 1]):
        value = np.array(here, np.float32)
        buffer.add(value, ACTION, here[1], value + AHEAD, False)
    places_, mask = buffer.ordered(), None
    from ramledger.replay.sampling import following_places

    _, mask = following_places(buffer.store, places_, 4)
    assert mask.sum(axis=1).tolist() == [2, 1, 2, 1]


# ---- priorities ----------------------------------------------------------------------------------


def test_priorities_decide_how_often_a_transition_is_drawn() -> None:
    buffer, _ = lived([20], 20, prioritized=Prioritized(alpha=1.0, beta=1.0, epsilon=0.0))
    priority = np.arange(1.0, 21.0)
    buffer.update_priorities(np.arange(20), priority)
    index = np.concatenate([buffer.sample(50).index for _ in range(400)])
    wanted = priority / priority.sum() * len(index)
    assert abs(np.bincount(index, minlength=20) - wanted).max() < 5 * np.sqrt(wanted.max())
    batch = buffer.sample(64)
    assert batch.weight is not None
    chance = priority[batch.index] / priority.sum()
    assert batch.weight == pytest.approx((1 / chance) / (1 / chance).max(), rel=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.lists(st.tuples(st.integers(0, 69), st.floats(0, 100)), max_size=40))
def test_the_sums_are_those_of_the_leaves(size: int, updates: list[tuple[int, float]]) -> None:
    buffer, _ = lived([size], 70, prioritized=Prioritized())
    for index, priority in updates:
        buffer.update_priorities([index % size], [priority])
    tree = buffer.tree
    assert tree is not None
    assert tree.nodes[1] == pytest.approx(tree.leaves.sum())
    assert tree.leaves[size:].sum() == 0
    assert buffer.sample(30).index.max() < size


def test_a_new_transition_gets_the_largest_priority() -> None:
    buffer, _ = lived([10], 10, prioritized=Prioritized(alpha=1.0, epsilon=0.0))
    buffer.update_priorities([3], [50.0])
    buffer.add(np.zeros(2), ACTION, 0.0, np.zeros(2), False)
    assert buffer.tree is not None
    assert buffer.tree.leaves[0] == 50.0


def test_what_was_forgotten_for_lack_of_rows_is_never_drawn() -> None:
    buffer = ReplayBuffer(SCHEMA, 200, seed=0, episode_length=10_000, prioritized=Prioritized())
    rng = np.random.default_rng(0)
    for _ in range(500):
        buffer.add(rng.normal(size=2), ACTION, 0.0, rng.normal(size=2), True)
    assert len(buffer) < 200
    assert set(buffer.sample(2000).index.tolist()) <= set(buffer.ordered().tolist())


@pytest.mark.parametrize(
    ("index", "priority"), [([0], [1.0, 2.0]), ([99], [1.0]), ([0], [np.nan]), ([-1], [1.0])]
)
def test_priorities_that_make_no_sense(index: list[int], priority: list[float]) -> None:
    buffer, _ = lived([10], 10, prioritized=Prioritized())
    with pytest.raises(ConfigError):
        buffer.update_priorities(index, priority)


def test_a_buffer_without_priorities_says_so() -> None:
    with pytest.raises(ConfigError, match="no priorities"):
        lived([3], 10)[0].update_priorities([0], [1.0])


# ---- goals ---------------------------------------------------------------------------------------

GOALS = Schema(
    {"observation": Field((1,)), "achieved_goal": Field((1,)), "desired_goal": Field((1,))},
    action=Field((1,)), goals=Goals(),
)  # fmt: skip


def reached(achieved: Any, desired: Any) -> Any:
    return -(np.abs(achieved - desired) > 0.5).astype(np.float32)[:, 0]


@pytest.mark.parametrize("strategy", ["future", "final"])
def test_goals_come_from_later_in_the_same_episode(strategy: str) -> None:
    buffer = ReplayBuffer(GOALS, 60, seed=2)
    for episode in range(12):
        for at in range(7):
            here, later = (
                {"observation": [t], "achieved_goal": [100 * episode + t], "desired_goal": [-1]}
                for t in (at, at + 1)
            )
            buffer.add(here, ACTION, -1.0, later, at == 6)
    batch = buffer.sample(200, hindsight=Hindsight(reached, ratio=0.8, strategy=strategy))
    assert isinstance(batch.obs, dict)
    assert isinstance(batch.next_obs, dict)
    goal, now = batch.obs["desired_goal"][:, 0], batch.next_obs["achieved_goal"][:, 0]
    changed = goal != -1
    assert 120 < changed.sum() < 195
    assert np.array_equal(batch.next_obs["desired_goal"][:, 0], goal)
    assert (goal[changed] // 100 == now[changed] // 100).all()
    assert (goal[changed] >= now[changed]).all()
    if strategy == "final":
        assert (goal[changed] % 100 == 7).all()
    assert np.array_equal(batch.reward[changed], np.where(goal == now, 0, -1)[changed])
    assert (batch.reward[~changed] == -1).all()


def test_hindsight_needs_goals() -> None:
    with pytest.raises(ConfigError, match="schema with goals"):
        lived([3], 10)[0].sample(2, hindsight=Hindsight(reached))
