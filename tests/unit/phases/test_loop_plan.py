"""The planned end of a loop, read off its header with the values that its names have."""

import itertools
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from tqdm import tqdm, trange  # type: ignore[import-untyped]

from ramledger.phases.code_loops import loops_of
from ramledger.phases.loop_plan import UNKNOWN, LoopPlan, plan_of

TOTAL = 12
args = SimpleNamespace(updates=9, batch=4)


class Trap:
    """Reading a property of the program's would run its code."""

    @property
    def passes(self) -> int:
        raise AssertionError("code of the program has run")


def seen(frame: FrameType, found: list[LoopPlan]) -> None:
    found.append(plan_of(frame, loops_of(frame.f_code)[0]))


def by_constant(found: list[LoopPlan]) -> None:
    for _ in range(7):
        number = 1
        seen(sys._getframe(), found)
    assert number


def by_stride(found: list[LoopPlan], total: int = 61440, length: int = 2048) -> None:
    for step in range(0, total, length):
        number = step
        seen(sys._getframe(), found)
    assert number


def by_attributes(found: list[LoopPlan]) -> None:
    for update in range(1, args.updates // args.batch + 1):
        number = update
        seen(sys._getframe(), found)
    assert number


def by_length(found: list[LoopPlan]) -> None:
    rows = ["a", "b", "c"]
    for index, row in enumerate(rows, 1):
        number = index, row
        seen(sys._getframe(), found)
    assert number


def by_items(found: list[LoopPlan]) -> None:
    rows = ["a", "b", "c"]
    for row in rows:
        number = row
        seen(sys._getframe(), found)
    assert number


def by_bar(found: list[LoopPlan]) -> None:
    for epoch in tqdm(range(TOTAL), desc="train", disable=True):
        number = epoch
        seen(sys._getframe(), found)
    assert number


def by_bar_of_its_own(found: list[LoopPlan]) -> None:
    for epoch in trange(TOTAL, disable=True):
        number = epoch
        seen(sys._getframe(), found)
    assert number


def by_total(found: list[LoopPlan]) -> None:
    for batch in tqdm(iter(range(3)), total=3, disable=True):
        number = batch
        seen(sys._getframe(), found)
    assert number


def by_bound(found: list[LoopPlan]) -> None:
    step = 0
    while step < TOTAL:
        seen(sys._getframe(), found)
        step += 1


def by_bound_of_steps(found: list[LoopPlan], total_steps: int = 1000) -> None:
    global_step = 0
    while global_step <= total_steps:
        seen(sys._getframe(), found)
        global_step += len("1234") * 50


def by_episodes(found: list[LoopPlan]) -> None:
    episode = time_step = 0
    while time_step < TOTAL:
        seen(sys._getframe(), found)
        for _ in range(4):
            time_step += 1
        episode += 1


def without_end(found: list[LoopPlan]) -> None:
    for generation in itertools.count(1):
        seen(sys._getframe(), found)
        if generation > 2:
            return


def of_a_stranger(found: list[LoopPlan]) -> None:
    for item in iter([1, 2]):
        number = item
        seen(sys._getframe(), found)
    assert number


@pytest.mark.parametrize(
    ("program", "plan"),
    [
        (by_constant, LoopPlan(0, 1, 7, 7)),
        (by_stride, LoopPlan(0, 2048, 61440, 30)),
        (by_attributes, LoopPlan(1, 1, 3, 2)),
        (by_length, LoopPlan(1, 1, 4, 3)),
        (by_items, LoopPlan(passes=3)),
        (by_bar, LoopPlan(0, 1, TOTAL, TOTAL)),
        (by_bar_of_its_own, LoopPlan(0, 1, TOTAL, TOTAL)),
        (by_total, LoopPlan(passes=3)),
        (by_bound, LoopPlan(0, 1, TOTAL, TOTAL)),
        (by_bound_of_steps, LoopPlan(bound=1000)),
        (by_episodes, LoopPlan(0, 1, bound=TOTAL)),
        (without_end, LoopPlan(1, 1)),
        (of_a_stranger, UNKNOWN),
    ],
)
def test_a_header_says_where_its_loop_ends(
    program: Callable[[list[LoopPlan]], None], plan: LoopPlan
) -> None:
    found: list[LoopPlan] = []
    program(found)
    assert set(found) == {plan}


def test_no_property_of_the_program_is_read() -> None:
    def training(settings: Any, found: list[LoopPlan]) -> None:
        passes = 0
        while passes < (settings.passes if passes > 9 else 2):
            seen(sys._getframe(), found)
            passes += 1

    found: list[LoopPlan] = []
    training(Trap(), found)
    assert found
