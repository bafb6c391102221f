"""The stacked population: the same mathematics as a plain loop, and evolution by rows."""

from typing import Any

import numpy as np
import pytest
import torch

from ramledger.train.population import Minibatch, Population
from ramledger.trainer_config import Evolution, Learning
from tests.support.plain_training_loop import PlainAgent

AGENTS, FEATURES, ACTIONS, BATCH, UPDATES = 5, 11, 3, 16, 20


def make(
    learning: Learning | None = None, *, learners: int = AGENTS, chunk: int = AGENTS
) -> Population:
    return Population(
        FEATURES, ACTIONS, agents=AGENTS, learners=learners, agents_per_chunk=chunk, seed=3,
        learning=learning or Learning(hidden=(32, 24), tau=0.05),
    )  # fmt: skip


def batches(agents: int, count: int = UPDATES, seed: int = 0) -> list[Minibatch]:
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(agents, BATCH, *shape, generator=random)

    return [
        Minibatch(
            normal(FEATURES), normal(ACTIONS).tanh(), normal(), normal(FEATURES),
            0.99 * (normal() > -1).float(),
        )
        for _ in range(count)
    ]  # fmt: skip


def run(population: Population, given: list[Minibatch]) -> Population:
    for number, batch in enumerate(given):
        population.update(batch, np.random.default_rng(number))
    return population


@pytest.mark.parametrize("chunk", [1, 2, AGENTS])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("lr_spread", [1.0, 3.0])
def test_it_learns_what_a_plain_loop_learns(chunk: int, shared: bool, lr_spread: float) -> None:
    population = make(Learning(hidden=(32, 24), tau=0.05, lr_spread=lr_spread), chunk=chunk)
    assert_same_as_a_loop(population, batches(1 if shared else AGENTS))


@pytest.mark.parametrize(
    "how",
    [
        {"hidden": (32, 24), "action_penalty": 0.5},
        {"hidden": (32, 24), "twin": True},
        {"hidden": (8,)},
        {"hidden": (40, 1, 20), "action_penalty": 0.1, "twin": True},
        {"hidden": (9, 17, 16)},
    ],
    ids=str,
)
def test_the_same_with_other_losses_and_layers(how: dict[str, Any]) -> None:
    assert_same_as_a_loop(make(Learning(tau=0.05, **how)), batches(AGENTS))


def test_the_same_with_one_transition() -> None:
    one = [batch_of_one(batch) for batch in batches(AGENTS)]
    assert_same_as_a_loop(make(), one)


def batch_of_one(batch: Minibatch) -> Minibatch:
    return Minibatch(
        batch.features[:, :1], batch.action[:, :1], batch.reward[:, :1],
        batch.next_features[:, :1], batch.discount[:, :1],
    )  # fmt: skip


def assert_same_as_a_loop(population: Population, given: list[Minibatch]) -> None:
    before = [tensor.clone() for tensor in population.groups["actor"]]
    agents = [PlainAgent(population, row) for row in range(AGENTS)]
    run(population, given)
    for batch in given:
        for row, agent in enumerate(agents):
            agent.update(batch, row)
    for row, agent in enumerate(agents):
        for group in ("actor", *population.critics, "actor_target", "critic_target"):
            theirs = [parameter.detach() for parameter in getattr(agent, group).parameters()]
            ours = [tensor[row] for tensor in population.groups[group]]
            for mine, other in zip(ours, theirs, strict=True):
                flat = other.T if other.ndim == 2 else other[None]
                torch.testing.assert_close(mine, flat, rtol=0, atol=1e-5)
    moved = (population.groups["actor"][0] - before[0])[:AGENTS].abs().mean(dim=(1, 2))
    assert (moved > 1e-3).all()


def test_the_best_row_and_agents_that_do_not_learn_are_left_alone() -> None:
    population = make(learners=2)
    before = {name: tensor.clone() for name, tensor in population.tensors()}
    run(population, batches(2, 3))
    for name, tensor in population.tensors():
        assert torch.equal(tensor[2:], before[name][2:]), name
        if not name.endswith("target.0"):
            assert not torch.equal(tensor[:2], before[name][:2]), name


def test_two_critics_delay_and_noise() -> None:
    learning = Learning(hidden=(16,), twin=True, policy_delay=2, target_noise=0.2)
    population = make(learning)
    actor = population.groups["actor"][0].clone()
    first, second = batches(AGENTS, 2)
    population.update(first, np.random.default_rng(0))
    assert torch.equal(population.groups["actor"][0], actor)
    population.update(second, np.random.default_rng(1))
    assert not torch.equal(population.groups["actor"][0], actor)
    assert not torch.equal(population.groups["critic"][0], population.groups["second_critic"][0])
    again = run(make(learning), [first, second])
    assert torch.equal(again.groups["critic"][0], population.groups["critic"][0])


def test_the_lower_of_two_values_counts() -> None:
    population = make(Learning(hidden=(16,), twin=True))
    population.groups["second_critic_target"][-1] -= 5
    batch = batches(AGENTS, 1)[0]
    low = population._target_value(batch, 0, AGENTS, np.random.default_rng(0))
    population.groups["second_critic_target"][-1] += 10
    high = population._target_value(batch, 0, AGENTS, np.random.default_rng(0))
    assert (high - low).min() > 3


# ---- evolution ---------------------------------------------------------------------------------

STATES = torch.randn(1, 8, FEATURES, generator=torch.Generator().manual_seed(1))


def test_elites_stay_and_the_worst_descend_from_the_best() -> None:
    fitness = np.asarray([0.0, 5.0, 1.0, 4.0, 2.0])
    still = Evolution(elites=2, tournament=5, crossover=0.0, mutation=0.0)
    children = 0
    for seed in range(6):
        population = make(Learning(hidden=(8,), lr_spread=2.0))
        before = [tensor.clone() for tensor in population.groups["critic_mean"]]
        before_actor = population.groups["actor"][0].clone()
        rates = population.actor_lr.copy()
        done = population.evolve(fitness, np.random.default_rng(seed), still, STATES)
        children += done["children"]
        for elite in (1, 3):
            assert torch.equal(population.groups["actor"][0][elite], before_actor[elite])
        for row in range(AGENTS):
            now = population.groups["actor"][0][row]
            origin = [torch.equal(now, before_actor[other]) for other in range(AGENTS)].index(True)
            assert population.actor_lr[row] == rates[origin]
        assert len(before) == len(population.groups["critic_mean"])
    assert children > 0


def test_a_cross_has_neurons_of_both_parents() -> None:
    population = make()
    before = population.groups["actor"][0].clone()
    population._cross(0, 1, np.random.default_rng(0))
    child = population.groups["actor"][0][1]
    from_other = (child == before[0]).all(dim=0)
    from_own = (child == before[1]).all(dim=0)
    assert (from_other | from_own).all()
    assert from_other.any() and from_own.any()


@pytest.mark.parametrize("method", ["scaled", "proximal"])
def test_mutation_changes_actors_and_elites_are_spared(method: str) -> None:
    population = make()
    before = population.groups["actor"][0].clone()
    how = Evolution(elites=1, tournament=1, crossover=0.0, mutation=1.0, method=method)
    fitness = np.arange(AGENTS, dtype=float)
    done = population.evolve(fitness, np.random.default_rng(1), how, STATES)
    assert done["mutated"] == AGENTS - 1
    now = population.groups["actor"][0]
    assert torch.equal(now[AGENTS - 1], before[AGENTS - 1])
    for row in range(AGENTS - 1):
        assert not any(torch.equal(now[row], before[other]) for other in range(AGENTS))
    assert torch.equal(now[0], population.groups["actor_target"][0][0])


def test_a_proximal_mutation_changes_actions_by_about_its_strength() -> None:
    shifts = []
    for strength in (0.01, 0.05):
        population = make()
        before = population.act(STATES)
        how = Evolution(elites=0, strength=strength, method="proximal")
        population._mutate(list(range(AGENTS)), np.random.default_rng(2), how, STATES)
        shifts.append(float((population.act(STATES) - before).abs().mean()))
    assert 2 < shifts[1] / shifts[0] < 10


def test_learners_are_injected_and_not_selected() -> None:
    population = make(learners=2)
    learners = population.groups["actor"][0][:2].clone()
    fitness = np.asarray([1.0, 9.0, 3.0, 2.0, 0.5])
    how = Evolution(elites=1, tournament=2, mutation=1.0)
    done = population.evolve(fitness, np.random.default_rng(0), how, STATES)
    assert done["injected"] == 1
    assert torch.equal(population.groups["actor"][0][:2], learners)
    assert torch.equal(population.groups["actor"][0][4], learners[1])


def test_evolution_repeats_itself() -> None:
    results = []
    for _ in range(2):
        population = make()
        population.evolve(np.arange(5.0), np.random.default_rng(7), Evolution(), STATES)
        results.append([tensor.clone() for _, tensor in population.tensors()])
    assert all(map(torch.equal, *results))


def test_parameter_noise_leaves_the_agents_alone() -> None:
    population = make()
    before = population.groups["actor"][0].clone()
    noisy = population.perturbed(0.1, np.random.default_rng(0))
    assert torch.equal(population.groups["actor"][0], before)
    shift = (noisy[0] - before[:AGENTS]).square().mean().sqrt() / before.square().mean().sqrt()
    assert 0.05 < shift < 0.2
