"""Saves to disks that say no: a small one that fills up, one that turns read-only.

Each program mounts a disk of its own in a namespace that nobody else sees.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]

PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from ramledger.errors import CheckpointError
from ramledger.replay import ReplayBuffer, verify
from tests.support.numbered_transitions import add, assert_true, filled

disk = sys.argv[1]
def mount(*options):
    subprocess.run(["mount", *options, disk], check=True)
def files():
    return {path.name: path.read_bytes() for path in Path(disk, "saves").iterdir()}
def refused(action):
    try:
        action()
    except CheckpointError as error:
        print(error.message, "|", error.hint)
    else:
        raise AssertionError("it was saved")

mount("-t", "tmpfs", "-o", "size=1m", "none")
buffer = filled(2000, 6000)
buffer.save(disk + "/saves")
before = files()
"""

FULL = """
add(buffer, 2000, 4000)
refused(lambda: buffer.save(disk + "/saves"))
refused(buffer.save_in_background(disk + "/saves").wait)
assert files() == before
assert all(save.is_whole for save in verify(disk + "/saves"))
loaded = ReplayBuffer.load(disk + "/saves")
assert loaded.total_added == 2000
assert_true(loaded)
# with room again, everything that was refused is saved
mount("-o", "remount,size=16m")
buffer.save(disk + "/saves")
loaded = ReplayBuffer.load(disk + "/saves")
assert loaded.total_added == 6000
assert_true(loaded)
"""

READ_ONLY = """
mount("-o", "remount,ro")
add(buffer, 2000, 10)
refused(lambda: buffer.save(disk + "/saves"))
refused(lambda: buffer.save(disk + "/other"))
assert files() == before
assert_true(ReplayBuffer.load(disk + "/saves", lazy=True))
mount("-o", "remount,rw")
buffer.save(disk + "/saves")
assert ReplayBuffer.load(disk + "/saves").total_added == 2010
"""


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("what", "reason"), [(FULL, "No space left"), (READ_ONLY, "Read-only file system")]
)
def test_a_disk_that_says_no_costs_nothing_but_that_save(
    tmp_path: Path, what: str, reason: str
) -> None:
    if not can_mount():
        pytest.skip("disks cannot be mounted here")
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", PROGRAM + what, str(tmp_path)],
        capture_output=True, text=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(reason in line and "| None" not in line for line in lines), done.stdout
