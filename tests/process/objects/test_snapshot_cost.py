"""A snapshot beside the cheapest way to count objects, in one process of a million objects."""

import json
import os
import subprocess
import sys

import pytest

from ramledger.interpreter.tracked_objects import is_compiled
from tests.support.places import ROOT


@pytest.mark.serial
@pytest.mark.skipif(not is_compiled(), reason="objects are not counted without the compiled part")
def test_a_snapshot_of_a_million_objects() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.snapshot_cost", "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    costs = {row["tool"]: row for row in json.loads(done.stdout)}
    one, all_objects = costs["snapshot"], costs["snapshot with all objects"]
    counter = costs["Counter(map(type, gc.get_objects()))"]
    assert counter["tracked_objects"] > 1_000_000
    assert one["cpu_seconds"] < counter["cpu_seconds"]
    assert all_objects["cpu_seconds"] < 2 * counter["cpu_seconds"]
    for row in (one, all_objects):
        assert row["stall_seconds"] < counter["stall_seconds"] / 2
        assert row["temporary_bytes"] < 32 << 20
