"""Programs and samplers that end with the test that started them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ramledger.recorder.tree_sampler import TreeSampler
from tests.support.process_families import Program


@pytest.fixture
def program() -> Iterator[Callable[[str], Program]]:
    started: list[Program] = []

    def start(code: str) -> Program:
        started.append(Program(code))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def sampler_of() -> Iterator[Callable[..., TreeSampler]]:
    samplers: list[TreeSampler] = []

    def start(pid: int, **options: Any) -> TreeSampler:
        samplers.append(TreeSampler(pid, **options))
        return samplers[-1]

    yield start
    for sampler in samplers:
        sampler.close()
