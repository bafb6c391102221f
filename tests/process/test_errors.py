"""Errors of worker processes arrive whole."""

import multiprocessing

import pytest

from ramledger.errors import ConfigError
from ramledger.units import parse_bytes


def test_an_error_raised_in_a_worker_process_arrives_whole() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply_async(parse_bytes, ("12 apples",))
        with pytest.raises(ConfigError, match="unknown unit 'apples'") as caught:
            result.get(timeout=100)
    assert "GiB" in caught.value.hint
