"""Many long containers at one path cost as little as a few of them."""

import time
from collections import deque
from typing import Any

import pytest

from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.objects.long_containers import ContainerSum, SimilarContainers, sum_container
from ramledger.objects.names.paths import Path


class Step:
    __slots__ = ("observation", "reward")

    def __init__(self, number: float) -> None:
        self.observation = [number + i for i in range(20)]
        self.reward = number


def episodes(count: int) -> list[list[Any]]:
    return [[Step(i * 0.25) for i in range(300)] for _ in range(count)]


def total(found: ContainerSum) -> int:
    return found.python_bytes + found.native_bytes


@pytest.mark.parametrize("make", [list, deque, lambda steps: dict(enumerate(steps))])
@pytest.mark.parametrize("length", [200, 300, 500, 600, 2_000, 100_001])
def test_the_size_of_an_element_does_not_depend_on_the_length(make: Any, length: int) -> None:
    container = make([Step(i * 0.25) for i in range(length)])
    step = total(sum_container(make([Step(0.5 + i) for i in range(1_000)]), Allowance())) / 1_000
    found = total(sum_container(container, Allowance())) / length
    assert found == pytest.approx(step, rel=0.15)


def test_the_sum_over_many_alike_is_that_over_each() -> None:
    found, log = episodes(30), Path("log[*]")
    like = SimilarContainers(Allowance())
    estimated = sum(total(like.sum(episode, 300, log)) for episode in found)
    counted = sum(total(sum_container(episode, Allowance())) for episode in found)
    assert estimated == pytest.approx(counted, rel=0.05)


def test_it_costs_a_fraction() -> None:
    found, log = episodes(60), Path("log[*]")
    like = SimilarContainers(Allowance())
    began = time.thread_time()
    for episode in found:
        like.sum(episode, 300, log)
    middle = time.thread_time()
    for episode in found:
        sum_container(episode, Allowance())
    assert middle - began < (time.thread_time() - middle) / 3


def test_paths_are_apart() -> None:
    like = SimilarContainers(Allowance())
    for _ in range(10):
        like.sum([1.5] * 300, 300, Path("a"))
    assert like.sum(episodes(1)[0], 300, Path("b")).element_type.endswith("Step")
