"""`kill -9` at any moment of saving and loading leaves a whole checkpoint, never an older one."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ramledger.replay import ReplayBuffer
from tests.replay.programs import assert_true, filled

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("RAMLEDGER_KILLS", "8"))  # of each kind; the benchmark takes more


def killed(verb: str, folder: Path, seconds: float) -> list[list[int]]:
    """Run the program, kill it that long after its first line; what it said was complete."""
    command = [sys.executable, "-m", "tests.replay.crash_program", verb, str(folder)]
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


@pytest.mark.parametrize("verb", ["save", "background"])
def test_a_killed_save_leaves_a_whole_checkpoint(verb: str, tmp_path: Path) -> None:
    moments = random.Random(verb)
    folder = tmp_path / "checkpoint"
    for _ in range(KILLS):
        complete = killed(verb, folder, moments.uniform(0, 0.08))
        loaded = ReplayBuffer.load(folder)
        assert loaded.restored is not None
        assert not loaded.restored.lost
        assert_true(loaded)
        number, total = complete[-1]
        assert loaded.restored.number >= number
        assert loaded.total_added >= total


def test_a_killed_load_changes_nothing(tmp_path: Path) -> None:
    buffer = filled(4000)
    buffer.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    moments = random.Random(3)
    for _ in range(max(2, KILLS // 4)):
        killed("load", tmp_path, moments.uniform(0, 0.05))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert_true(ReplayBuffer.load(tmp_path))
