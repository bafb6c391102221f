"""A snapshot stays small and lets the program run, whatever the program's objects look like."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from ramledger.interpreter.tracked_objects import is_compiled
from tests.support.places import PROGRAMS

PROGRAM = PROGRAMS / "any_graph.py"
MIB = 1 << 20
TEMPORARY_BYTES = 32 * MIB
HOLD_SECONDS = 0.020  # of processor time, so that a busy machine does not count
EVENT_BYTES = 200_000

CHAINS = ["dict", "list", "tuple", "object", "slots", "closure", "generator", "deque", "mixed"]
GRAPHS = [
    *((f"chain of {name}", 100_000 if name != "generator" else 20_000) for name in CHAINS),
    ("tree of lists", 5),
    ("tree of dicts", 5),
    ("tree of objects", 5),
    ("list of lists", 1_000_000),
    ("list of tuples", 1_000_000),
    ("list of objects", 500_000),
    ("list of long lists", 1_000),
    ("dict of lists", 1_000_000),
    ("dict of dicts", 300_000),
    ("deque of lists", 1_000_000),
    ("set of tuples", 500_000),
    ("long names", 50),
    ("many attributes", 300_000),
    ("shared tuples", 60),
]


def snapshot_of(shape: str, size: int, *, census: bool) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), shape, str(size), "census" if census else "light"],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any]) -> None:
    assert found["is_balanced"]
    assert found["temporary_bytes"] <= TEMPORARY_BYTES
    assert found["longest_hold_seconds"] <= HOLD_SECONDS
    assert found["event_bytes"] <= EVENT_BYTES


# a thread that waits for the GIL must get a processor: beside other tests it may wait for that
@pytest.mark.serial
@pytest.mark.parametrize("census", [False, True], ids=["light", "census"])
@pytest.mark.parametrize(("shape", "size"), GRAPHS, ids=[shape for shape, _ in GRAPHS])
def test_a_snapshot_is_bounded(shape: str, size: int, census: bool) -> None:
    check(snapshot_of(shape, size, census=census))


@pytest.mark.serial
@pytest.mark.skipif(not is_compiled(), reason="objects are not counted without the compiled part")
def test_of_twenty_million_objects() -> None:
    found = snapshot_of("list of lists", 20_000_000, census=False)
    check(found)
    assert found["tracked_objects"] > 20_000_000


@pytest.mark.serial
@pytest.mark.skipif(not is_compiled(), reason="objects are not counted without the compiled part")
def test_a_census_of_four_million_objects() -> None:
    check(snapshot_of("list of lists", 4_000_000, census=True))


def test_the_depth_of_a_chain_costs_no_more_than_its_length() -> None:
    """Ten times as long costs ten times as much at most, not a hundred times."""
    short = snapshot_of("chain of dict", 5_000, census=False)
    long = snapshot_of("chain of dict", 50_000, census=False)
    assert long["cost_seconds"] < 20 * short["cost_seconds"]
