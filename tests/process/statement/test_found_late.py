"""A training that nobody watched from its start: entered, calibrated, and left as it was."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ramledger.attach import calibration
from ramledger.attach.enter import ask_inside
from ramledger.ledger import Source, Statement
from ramledger.recorder.live_statement import calibrated, explain_process
from ramledger.type_ranks import TypeRank, type_rank
from tests.support.held_program import HeldProgram, observe
from tests.support.places import PROGRAMS

pytestmark = pytest.mark.xdist_group("coverage")

TORCH = ("ddpg_population", "sb3_dqn_pong", "sb3_ppo_subproc")
OWN_HOOKS = """
import importlib._bootstrap, sys

def state(_):
    hooks = sys.modules["ramledger.hooks.import_costs"]
    return {
        "loader": importlib._bootstrap._find_and_load.__module__,
        "tracker": hooks.tracker() is not None,
        "modules": sorted(sys.modules),
        "path": sys.path,
    }
"""


@dataclass(frozen=True, slots=True)
class Late:
    """What is seen of a program that was started alone."""

    before: Statement
    after: Statement


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module", params=TORCH)
def late(request: pytest.FixtureRequest, cache: Path) -> tuple[str, Late]:
    with HeldProgram(request.param, "alone") as program:
        before = explain_process(program.pid, inside=True)
        return request.param, Late(before, calibrated(before))


def test_most_of_it_has_an_owner(late: tuple[str, Late]) -> None:
    _, seen = late
    assert seen.before.owned_fraction < 0.7
    assert seen.after.owned_fraction >= 0.75
    assert seen.after.named_fraction >= 0.99


def test_the_sum_is_rss_to_the_byte(late: tuple[str, Late]) -> None:
    _, seen = late
    document = seen.after.to_dict()
    booked = sum(entry["resident_bytes"] for entry in document["accounts"])
    assert booked + document["unexplained_bytes"] == document["rss_bytes"]
    assert seen.after.unexplained_bytes == seen.before.unexplained_bytes
    assert Statement.from_dict(document) == seen.after


def test_imports_cost_what_they_cost_where_they_were_watched(late: tuple[str, Late]) -> None:
    name, seen = late
    watched = observe(name, "bare").statement
    for package in ("imports/torch", "imports/sympy", "imports/numpy"):
        assert seen.after.total(package) == pytest.approx(watched.total(package), rel=0.15)
    whole = [s.total("imports") + s.total("python/startup") for s in (seen.after, watched)]
    assert whole[0] == pytest.approx(whole[1], rel=0.1)


def test_nothing_calibrated_passes_for_measured(late: tuple[str, Late]) -> None:
    _, seen = late
    sources = {e.source for e in seen.after.entries if e.account.startswith("imports/")}
    assert sources == {Source.CALIBRATED}
    assert any("another process" in note for note in seen.after.notes)


def test_types_start_with_what_the_user_wrote_and_knows(late: tuple[str, Late]) -> None:
    name, seen = late
    users = set(seen.after.facts["user_classes"])
    assert ("__main__.Agent" in users) == (name == "ddpg_population")
    ranks = [type_rank(row.type, users) for row in seen.after.types]
    assert ranks == sorted(ranks)
    assert TypeRank.HIDDEN not in ranks
    assert {TypeRank.ROLE, TypeRank.ARRAY, TypeRank.DATA} <= set(ranks)


def test_the_process_is_left_as_it_was(tmp_path: Path, cache: Path) -> None:
    """No hook is set late, and nothing is imported in it while its imports are repeated."""
    script = tmp_path / "state.py"
    script.write_text(OWN_HOOKS)
    with HeldProgram("numpy_ring", "alone") as program:
        statement = explain_process(program.pid, inside=True)
        ask_inside(program.pid, {"verb": "imports"}, method="agent")
        before = program.say(f"call {script} state")
        assert calibrated(statement).owned_fraction > statement.owned_fraction
        after = program.say(f"call {script} state")
    assert before == after
    assert after["loader"] == "_frozen_importlib" or after["loader"] == "importlib._bootstrap"
    assert not after["tracker"]


def test_the_command_calibrates_unless_told_not_to(cache: Path) -> None:
    with HeldProgram("numpy_ring", "alone") as program:
        documents = [_explained(program.pid, *more) for more in ((), ("--no-calibrate",))]
    calibrated_bytes = [
        sum(e["resident_bytes"] for e in d["accounts"] if e["source"] == "calibrated")
        for d in documents
    ]
    assert calibrated_bytes[0] > 5 << 20
    assert calibrated_bytes[1] == 0
    assert documents[0]["owned_fraction"] > documents[1]["owned_fraction"]


def _explained(pid: int, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "ramledger", "explain", str(pid), "--inside", "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_files_of_the_user_are_not_run_again(tmp_path: Path, cache: Path) -> None:
    """Neither the program nor modules beside it: only what is installed."""
    marks = tmp_path / "marks"
    marks.mkdir()
    mark = f"import os; open(f'{marks}/{{os.getpid()}}', 'w').close()\n"
    (tmp_path / "helper_of_user.py").write_text(mark)
    (tmp_path / "train.py").write_text(
        f"import sys; sys.path.append({str(PROGRAMS)!r})\n"
        "import numpy, helper_of_user\nfrom holding import hold\nhold({})\n"
    )
    with HeldProgram(os.path.relpath(tmp_path / "train", PROGRAMS), "alone") as program:
        statement = calibrated(explain_process(program.pid, inside=True))
    assert statement.total("imports/numpy") > 1 << 20
    assert len(list(marks.iterdir())) == 1


def test_a_repetition_that_hangs_is_ended(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement is as it was, with the reason; no process is left."""
    monkeypatch.setattr(calibration, "TIMEOUT_SECONDS", 0.01)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    others = _children()
    with HeldProgram("numpy_ring", "alone") as program:
        before = explain_process(program.pid, inside=True)
        after = calibrated(before)
    assert after.entries == before.entries
    assert any("could not be repeated in" in note for note in after.notes)
    assert not _children() - others


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
