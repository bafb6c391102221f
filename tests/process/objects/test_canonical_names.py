"""One object, one name: the same trainer, read from many stack depths and at many moments."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.support.places import PROGRAMS

ARRAY = 256 * 1024
AGENTS, TRANSITIONS = 6, 120
Table = dict[str, int]


@dataclass(frozen=True)
class Readings:
    """Of one run of the program: for each place, bytes and lengths by name."""

    held_by: str
    accounts: dict[str, Table]
    paths: dict[str, Table]
    containers: dict[str, Table]


def usual(tables: dict[str, Table]) -> Table:
    """What most places say."""
    return json_table(Counter(map(table_json, tables.values())).most_common(1)[0][0])


def table_json(table: Table) -> str:
    return json.dumps(table, sort_keys=True)


def json_table(text: str) -> Table:
    table: Table = json.loads(text)
    return table


def differing(tables: dict[str, Table]) -> dict[str, Table]:
    """Places that say something else, with what they say else."""
    expected = usual(tables)
    return {
        place: dict(table.items() ^ expected.items())
        for place, table in tables.items()
        if table != expected
    }


@pytest.fixture(scope="module", params=["local", "global", "nested"])
def readings(request: pytest.FixtureRequest) -> Readings:
    program = [sys.executable, str(PROGRAMS / "seen_from_everywhere.py"), request.param]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    accounts, paths, containers = (
        {place: tables[kind] for place, tables in found.items()}
        for kind in ("accounts", "paths", "containers")
    )
    return Readings(request.param, accounts, paths, containers)


def test_many_places_are_compared(readings: Readings) -> None:
    assert len(readings.accounts) >= 40


def test_every_array_is_found_from_everywhere(readings: Readings) -> None:
    whole = ARRAY * (AGENTS * 3 + TRANSITIONS + 3)
    for place, table in readings.accounts.items():
        assert sum(table.values()) == whole, place


def test_an_owner_has_the_same_account_everywhere(readings: Readings) -> None:
    assert not differing(readings.accounts)


def test_an_array_has_the_same_path_everywhere(readings: Readings) -> None:
    assert not differing(readings.paths)


def test_a_container_has_the_same_path_everywhere(readings: Readings) -> None:
    assert TRANSITIONS in usual(readings.containers).values()
    assert not differing(readings.containers)


def test_no_name_is_that_of_a_frame_that_happened_to_run(readings: Readings) -> None:
    names = {name for table in readings.paths.values() for name in table}
    frames = ("train_population", "evolve", "by_argument", "deep", "look_everywhere", "self.")
    assert not {name for name in names if any(frame in name for frame in frames)}


def test_names_are_those_that_say_most(readings: Readings) -> None:
    """The user's class that lives longest, and its attributes; elements are one owner."""
    holder = "Application.trainer" if readings.held_by == "nested" else "Trainer"
    names = {"Agent.actor", "Agent.critic", f"{holder}.env.window"}
    for place, table in readings.paths.items():
        assert names <= set(table), place
        assert any(name.startswith(f"{holder}.replay_buffer.buffer") for name in table), place
