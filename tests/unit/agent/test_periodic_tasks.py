"""The schedule of the agent's tasks, with a clock that only the test moves."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from ramledger.agent.periodic_tasks import Pace, PeriodicTask, Schedule


class FakeTime:
    """One clock for time and cost; a task costs what it moves the clock by."""

    def __init__(self) -> None:
        self.now = 100.0
        self.spent = 0.0

    def clock(self) -> float:
        return self.now

    def cost_clock(self) -> float:
        return self.spent

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.spent += seconds


def scheduled(
    time: FakeTime,
    *tasks: PeriodicTask,
    pace: Pace | None = None,
    on_drop: Callable[[str, Exception], None] = lambda name, error: None,
) -> Schedule:
    return Schedule(
        tasks,
        clock=time.clock,
        cost_clock=time.cost_clock,
        pace=pace or Pace(),
        on_drop=on_drop,
    )


def counted(
    time: FakeTime, pace: Pace, cost_seconds: float, seconds: float, step: float = 0.01
) -> int:
    """How often a task of that cost runs in that time when it is offered every step."""
    runs: list[float] = []

    def run() -> None:
        runs.append(time.now)
        time.work(cost_seconds)

    schedule = scheduled(time, PeriodicTask("task", run, pace))
    end = time.now + seconds
    while time.now < end:
        schedule.run_due()
        time.now += step
    return len(runs)


@pytest.mark.parametrize("cost_seconds", [0.001, 0.01, 0.1])
def test_the_cost_of_a_task_stays_below_its_share(cost_seconds: float) -> None:
    runs = counted(FakeTime(), Pace(share=1 / 50), cost_seconds, seconds=100)
    assert 0.9 * 100 / 50 <= runs * cost_seconds <= 100 / 50 + cost_seconds


def test_a_cheap_task_rests_for_the_shortest_interval() -> None:
    assert counted(FakeTime(), Pace(share=0.5, shortest_seconds=2.0), 1e-6, seconds=100) == 49


def test_an_expensive_task_rests_for_the_longest_interval() -> None:
    pace = Pace(share=1e-6, shortest_seconds=0.1, longest_seconds=10.0)
    assert counted(FakeTime(), pace, 0.5, seconds=100) in (10, 11)


def test_the_first_run_comes_after_the_shortest_interval() -> None:
    time = FakeTime()
    runs: list[float] = []
    task = PeriodicTask("task", lambda: runs.append(time.now), Pace(shortest_seconds=1.0))
    schedule = scheduled(time, task)
    schedule.run_due()
    assert not runs
    time.now += 1.0
    schedule.run_due()
    assert runs == [101.0]


def test_a_task_becomes_rarer_with_the_age_of_the_run() -> None:
    pace = Pace(shortest_seconds=1.0, longest_seconds=30.0, age_share=0.03)
    assert pace.rest_seconds(10.0, 0.0) == 1.0
    assert pace.rest_seconds(500.0, 0.0) == 15.0
    assert pace.rest_seconds(5000.0, 0.0) == 30.0


def test_an_early_share_holds_at_first_only() -> None:
    pace = Pace(share=0.004, early_share=0.02, early_seconds=3.0)
    assert pace.rest_seconds(2.9, 0.001) == pytest.approx(0.05)
    assert pace.rest_seconds(3.0, 0.001) == pytest.approx(0.25)


def test_a_cost_with_a_budget_of_its_own_counts_in_part() -> None:
    pace = Pace(share=0.01, counted_seconds=0.001)
    assert pace.rest_seconds(0.0, 5.0) == pace.rest_seconds(0.0, 0.001) == pytest.approx(0.1)


def test_a_scaled_pace_costs_that_share() -> None:
    pace = Pace(share=0.02, early_share=0.1, early_seconds=1.0, longest_seconds=0.25).scaled(0.1)
    assert pace.rest_seconds(0.0, 0.0001) == pytest.approx(0.01)
    assert pace.rest_seconds(2.0, 0.0001) == pytest.approx(0.05)
    assert pace.rest_seconds(2.0, 9.0) == 2.5


def test_the_rest_of_the_schedule_is_for_the_cost_of_all_tasks() -> None:
    time = FakeTime()
    tasks = [PeriodicTask(name, lambda: time.work(0.001)) for name in "abc"]
    assert scheduled(time, *tasks, pace=Pace(share=0.01)).run_due() == pytest.approx(0.3)


def test_tasks_run_in_their_order() -> None:
    said: list[str] = []
    tasks = [PeriodicTask(name, partial(said.append, name)) for name in "abc"]
    scheduled(FakeTime(), *tasks).run_due()
    assert said == ["a", "b", "c"]


def test_a_task_that_keeps_raising_is_dropped_and_noted_once() -> None:
    time, tries, noted = FakeTime(), list[float](), list[str]()

    def fail() -> None:
        tries.append(time.now)
        raise ValueError("broken")

    schedule = scheduled(
        time,
        PeriodicTask("broken", fail),
        PeriodicTask("sound", lambda: None),
        on_drop=lambda name, error: noted.append(f"{name}: {error}"),
    )
    for _ in range(1000):
        schedule.run_due()
        time.now += 0.1
    assert noted == ["broken: broken"]
    assert schedule.names == ["sound"]
    assert len(tries) == 5
    rests = [round(b - a) for a, b in pairwise(tries)]
    assert rests == [1, 2, 4, 8]


def test_a_task_that_recovers_stays_with_its_own_pace() -> None:
    time, runs = FakeTime(), list[float]()

    def fail_at_first() -> None:
        runs.append(time.now)
        if len(runs) < 5:
            raise OSError("no descriptors left")

    schedule = scheduled(time, PeriodicTask("task", fail_at_first))
    for _ in range(500):
        schedule.run_due()
        time.now += 0.1
    assert schedule.names == ["task"]
    assert len(runs) > 100


def test_a_failing_task_keeps_no_other_from_running() -> None:
    said: list[str] = []

    def fail() -> None:
        raise MemoryError

    tasks = PeriodicTask("broken", fail), PeriodicTask("sound", lambda: said.append("ran"))
    scheduled(FakeTime(), *tasks).run_due()
    assert said == ["ran"]


def test_nothing_is_raised_even_where_the_note_fails() -> None:
    time = FakeTime()

    def fail(*_: object) -> None:
        raise RuntimeError

    schedule = scheduled(time, PeriodicTask("broken", fail), on_drop=fail)
    for _ in range(100):
        schedule.run_due()
        time.now += 1.0
    assert schedule.names == []
