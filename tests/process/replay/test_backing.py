"""Rows in mapped files need room that is really there: a page without room is a SIGBUS."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.errors import ConfigError
from ramledger.replay import Field, ReplayBuffer, Schema
from ramledger.replay.storage.backing import Folder
from tests.support.places import ROOT

UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]
SCHEMA = Schema(Field((1000,), "uint8"))

PROGRAM = """
import subprocess, sys
from pathlib import Path
from ramledger.errors import ConfigError
from ramledger.replay import Field, ReplayBuffer, Schema, SharedReplayBuffer
from ramledger.replay import sharing
from ramledger.replay.storage.backing import Folder
import numpy as np

disk = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], check=True)
sharing.SHARED_MEMORY = Path(disk)
schema = Schema(Field((1000,), "uint8"))

def fill(capacity, make):
    buffer = make(capacity)
    row = np.zeros(1000, np.uint8)
    for number in range(2 * capacity):
        buffer.add(row + number % 200, 0.0, 0.0, row + (number + 1) % 200, False)
    return buffer

ways = {
    "folder": lambda capacity: ReplayBuffer(schema, capacity, backing=Folder(disk + "/rows")),
    "shared": lambda capacity: SharedReplayBuffer(schema, capacity),
}
for name, make in ways.items():
    try:
        fill(10_000, make)
    except ConfigError as error:
        print(name, error.message, "|", error.hint)
    else:
        raise AssertionError("there was room")
    left = [path for path in Path(disk).rglob("*") if path.is_file()]
    assert not left, left
for name, make in ways.items():
    fill(1000, make)
    print(name, "filled")
subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
for make in (lambda: Folder(disk + "/other"), lambda: SharedReplayBuffer(schema, 10)):
    try:
        make()
    except ConfigError as error:
        assert "ead-only" in error.message and error.hint, error
"""


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_rows_in_memory_that_is_too_small_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("disks cannot be mounted here")
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True, text=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    folder, shared, *filled = done.stdout.splitlines()
    assert folder.startswith("folder no room") and "MiB are free" in folder
    assert shared.startswith("shared no room") and "--shm-size" in shared
    assert filled == ["folder filled", "shared filled"]


def test_a_disk_is_asked_for_all_of_it_at_once(tmp_path: Path) -> None:
    buffer = ReplayBuffer(SCHEMA, 5000, backing=Folder(tmp_path / "rows"))
    found = (tmp_path / "rows" / "obs.rows").stat()
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        device = f" {os.major(found.st_dev)}:{os.minor(found.st_dev)} "
        if any(device in line and " - tmpfs " in line for line in file):
            pytest.skip("temporary files are in memory here")
    assert found.st_size >= 5000 * 1000
    assert found.st_blocks * 512 >= found.st_size
    assert len(buffer) == 0


def test_a_disk_that_refuses_says_why_and_nothing_is_left(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(ConfigError, match=r"no room for .* MiB of obs") as caught:
            ReplayBuffer(SCHEMA, 5000, backing=Folder(tmp_path / "rows"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint
    assert not list((tmp_path / "rows").iterdir())
    # so the next attempt is not taken for a second buffer
    ReplayBuffer(SCHEMA, 5000, backing=Folder(tmp_path / "rows"))
