"""A part of `make fuzz` in every test run, and the worst cases that it would need luck to meet."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.errors import RecordingError
from ramledger.run.model import Run
from tests.fuzz import fuzz_recordings
from tests.fuzz.absurd_recordings import ABSURD, lines_of
from tests.fuzz.fuzz_recordings import MOST_BYTES, VIEWS, Fuzzer, status_bytes
from tests.support.places import ROOT

MUTATIONS = 800
ABSURD_BYTES = 1_500_000
HANG_SECONDS = 60  # of CPU; answers take one or two


def test_mutated_recordings_break_nothing() -> None:
    command = [sys.executable, "-m", "tests.fuzz.fuzz_recordings"]
    done = subprocess.run(
        [*command, "--count", str(MUTATIONS), "--seed", "3"],
        cwd=ROOT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failures: 0 at 0 places" in done.stdout


def _with_a_defect(run: Run) -> str:
    raise KeyError("t")


def _refusing(run: Run) -> str:
    raise RecordingError("no")


def _raw(run: Run) -> str:
    return "\x1b[31m"


@pytest.mark.parametrize(
    ("view", "failed"),
    [(_with_a_defect, 20), (_refusing, 0), (_raw, 20)],
    ids=["defect", "refusal", "raw"],
)
def test_the_fuzzer_sees_defects(
    view: object, failed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fuzz_recordings, "VIEWS", {"only": view})
    tally = Fuzzer(4, str(tmp_path)).run(0, 20)
    unread = 20 - tally.failures.total() if failed else 0
    assert tally.failures.total() == failed - unread
    assert unread <= 4  # no recording at all
    assert tally.is_clean == (not failed)
    assert bool([*tmp_path.iterdir()]) == bool(failed)


def test_a_mutation_can_be_made_again_by_its_number() -> None:
    assert Fuzzer(5).case(17) == Fuzzer(5).case(17)
    assert Fuzzer(5).case(17) != Fuzzer(6).case(17)


@pytest.mark.parametrize("name", sorted(ABSURD))
def test_absurd_recordings_are_answered_in_bounded_time_and_memory(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "absurd.ledger.jsonl"
    path.write_bytes(lines_of(ABSURD[name](), ABSURD_BYTES))
    child = os.fork()
    if child == 0:  # a process of its own: its peak is its own, and a hang can be ended
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (HANG_SECONDS, HANG_SECONDS))
            before_bytes = status_bytes("VmHWM:")
            run = Run.read(str(path))
            assert not run.damage
            for view in VIEWS.values():
                view(run)
            code = 0 if status_bytes("VmHWM:") - before_bytes < MOST_BYTES else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
