"""Snapshots are spread over a run; expensive ones wait for the training to begin."""

import pytest

from ramledger.agent.snapshot_schedule import SnapshotSchedule


def ages(cost: float, seconds: float) -> list[float]:
    schedule, found = SnapshotSchedule(0.0), []
    for tick in range(round(seconds * 20)):
        now = tick / 20
        if schedule.is_due(now, in_loop=now > 1, modules=1500):
            found.append(now)
            schedule.took(now, cost)
    return found


@pytest.mark.parametrize(("cost", "least", "most"), [(0.01, 14, 30), (0.05, 8, 14), (0.2, 4, 9)])
def test_snapshots_are_the_rarer_the_more_they_cost(cost: float, least: int, most: int) -> None:
    found = ages(cost, 20)
    assert least <= len(found) <= most
    assert found[-1] > 10


def test_an_expensive_snapshot_waits_for_the_loop_but_not_for_ever() -> None:
    def is_due(now: float, *, in_loop: bool, modules: int) -> bool:
        return SnapshotSchedule(0.0).is_due(now, in_loop=in_loop, modules=modules)

    assert not is_due(1.0, in_loop=False, modules=1500)
    assert is_due(1.0, in_loop=True, modules=1500)
    assert is_due(1.0, in_loop=False, modules=200)
    assert is_due(16.0, in_loop=False, modules=1500)


def test_within_an_iteration_there_is_none_unless_it_is_long() -> None:
    schedule = SnapshotSchedule(0.0)
    assert schedule.is_due(1.0, in_loop=True, modules=100)
    assert not schedule.is_due(5.0, in_loop=False, modules=100)
    assert schedule.is_due(30.0, in_loop=False, modules=100)


def test_every_iteration_has_one_while_the_budget_pays_for_it() -> None:
    schedule, taken = SnapshotSchedule(0.0, budget=0.01), 0
    for iteration in range(1, 61):
        if schedule.is_due(iteration * 5.0, in_loop=True, modules=1500):
            schedule.took(iteration * 5.0, 0.05)
            taken += 1
    assert taken == 60


def test_a_long_run_has_few_more_than_a_short_one() -> None:
    schedule, taken = SnapshotSchedule(0.0, budget=0.01), 0
    for iteration in range(1, 200_000):
        if schedule.is_due(iteration * 5.0, in_loop=True, modules=1500):
            schedule.took(iteration * 5.0, 0.05)
            taken += 1
    assert 300 < taken < 700


def test_while_credit_is_left_iterations_need_not_pay_for_all_of_theirs() -> None:
    schedule, taken, left = SnapshotSchedule(0.0, budget=0.01), 0, 0.45
    for iteration in range(1, 61):
        left += 0.01 * 6.0
        if left >= 0.09 and schedule.is_due(iteration * 6.0, in_loop=True, modules=1500):
            left -= 0.09
            taken += 1
            schedule.took(iteration * 6.0, 0.09, credit_left=min(1.0, left / 0.45))
        if iteration == 14:
            assert taken >= 12
    assert 40 <= taken < 50
