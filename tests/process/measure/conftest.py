"""Fixtures that end with the test: `child` starts a program, `as_nobody` loses all privileges."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.small_children import Child, call_as_nobody


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    """Start programs; all are ended with the test."""
    started: list[Child] = []

    def start(code: str, **options: Any) -> Child:
        started.append(Child(code, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def as_nobody() -> Callable[..., Any]:
    """Call a function in a forked process of the user nobody; its result or error comes back.

    `before` is called there too, still with all privileges.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return call_as_nobody
