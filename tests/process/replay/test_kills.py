"""`kill -9` of saves, loads and uploads at any moment: a whole checkpoint, never an older one."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ramledger.replay import ReplayBuffer, download
from tests.support.numbered_transitions import assert_true, filled
from tests.support.places import ROOT

KILLS = 8  # of each kind; `benchmarks/replay_kills.py` takes 50


def killed(verb: str, folder: Path, seconds: float, *url: str) -> list[list[int]]:
    """Run the program, kill it that long after its first line; what it said was complete."""
    command = [sys.executable, "-m", "tests.support.replay_until_killed", verb, str(folder), *url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    # the kill may have cut the last line
    lines = [line for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]
    return [[int(number) for number in line.split()] for line in lines]


def assert_whole(folder: Path, complete: list[list[int]]) -> None:
    """The newest save is there, true, and not older than the last one that was complete."""
    loaded = ReplayBuffer.load(folder)
    assert loaded.restored is not None
    assert not loaded.restored.lost
    assert_true(loaded)
    number, total = complete[-1]
    assert loaded.restored.number >= number
    assert loaded.total_added >= total


def kill_saves(verb: str, tmp_path: Path, kills: int) -> None:
    moments = random.Random(verb)
    folder = tmp_path / "checkpoint"
    for _ in range(kills):
        assert_whole(folder, killed(verb, folder, moments.uniform(0, 0.08)))


def kill_loads(tmp_path: Path, kills: int) -> None:
    filled(4000).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    moments = random.Random(3)
    for _ in range(kills):
        killed("load", tmp_path, moments.uniform(0, 0.05))
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert_true(ReplayBuffer.load(tmp_path))


def kill_uploads(tmp_path: Path, kills: int) -> None:
    moments = random.Random(4)
    folder, bucket = tmp_path / "checkpoint", tmp_path / "bucket"
    for number in range(kills):
        complete = killed("upload", folder, moments.uniform(0, 0.15), str(bucket))
        download(str(bucket), tmp_path / f"copy{number}")
        assert_whole(tmp_path / f"copy{number}", complete)
        assert_whole(folder, complete)
        shutil.rmtree(tmp_path / f"copy{number}")


@pytest.mark.parametrize("verb", ["save", "background"])
def test_a_killed_save_leaves_a_whole_checkpoint(verb: str, tmp_path: Path) -> None:
    kill_saves(verb, tmp_path, KILLS)


def test_a_killed_load_changes_nothing(tmp_path: Path) -> None:
    kill_loads(tmp_path, KILLS // 4)


def test_a_killed_upload_leaves_a_whole_checkpoint_there(tmp_path: Path) -> None:
    kill_uploads(tmp_path, KILLS // 2)
