"""Deep looks are spread over a run; dear ones wait for the training to begin."""

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


@pytest.mark.parametrize(("cost", "least", "most"), [(0.01, 10, 24), (0.05, 6, 12), (0.2, 3, 7)])
def test_looks_are_the_rarer_the_dearer_they_are(cost: float, least: int, most: int) -> None:
    found = ages(cost, 20)
    assert least <= len(found) <= most
    assert found[-1] > 10


def test_a_dear_look_waits_for_the_loop_but_not_for_ever() -> None:
    schedule = SnapshotSchedule(0.0)
    assert not schedule.is_due(1.0, in_loop=False, modules=1500)
    assert schedule.is_due(1.0, in_loop=True, modules=1500)
    assert schedule.is_due(1.0, in_loop=False, modules=200)
    assert schedule.is_due(16.0, in_loop=False, modules=1500)
