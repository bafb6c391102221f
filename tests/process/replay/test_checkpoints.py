"""Saves beside a training: in threads and processes, cancelled, and within their memory."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ramledger import CheckpointError
from ramledger.replay import ReplayBuffer
from tests.support.numbered_transitions import SCHEMA, add, assert_true, files_of, filled
from tests.support.places import ROOT


def waiting(event: threading.Event) -> Callable[[int, int], None]:
    def wait(done: int, total: int) -> None:
        event.wait()

    return wait


def test_progress_is_told_and_a_save_can_be_cancelled(tmp_path: Path) -> None:
    buffer = filled(3000)
    told: list[tuple[int, int]] = []
    buffer.save(tmp_path, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1] == 3000 * SCHEMA.step_bytes + told[0][0]
    add(buffer, 3000, 2000)
    hold = threading.Event()
    job = buffer.save_in_background(tmp_path, progress=waiting(hold))
    job.cancel()
    hold.set()
    with pytest.raises(CheckpointError, match="cancelled"):
        job.wait()
    assert ReplayBuffer.load(tmp_path).total_added == 3000
    # what the cancelled save had taken is in the next one
    buffer.save(tmp_path)
    loaded = ReplayBuffer.load(tmp_path)
    assert loaded.total_added == 5000
    assert_true(loaded)


def test_two_saves_at_a_time_are_refused(tmp_path: Path) -> None:
    buffer = filled(3000)
    hold = threading.Event()
    job = buffer.save_in_background(tmp_path / "a", progress=waiting(hold))
    with pytest.raises(CheckpointError, match="in progress"):
        buffer.save(tmp_path / "a")
    with pytest.raises(CheckpointError, match="in progress"):
        buffer.save(tmp_path / "b")
    hold.set()
    job.wait()
    assert_true(ReplayBuffer.load(tmp_path / "a"))


# ---- disks that say no ---------------------------------------------------------------------------

FULL_DISK = """
import resource, sys
from ramledger.errors import CheckpointError
from ramledger.replay import ReplayBuffer
from tests.support.numbered_transitions import add, filled
buffer = filled(500, 6000)
buffer.save(sys.argv[1])
add(buffer, 500, 5000)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    buffer.save(sys.argv[1])
except CheckpointError as error:
    print(error.message, "|", error.hint)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
add(buffer, 5500, 10)
buffer.save(sys.argv[1] + "-other")
"""


def test_a_disk_that_is_full_costs_nothing_but_that_save(tmp_path: Path) -> None:
    folder = tmp_path / "saves"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder)],
        capture_output=True, text=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cannot write to" in done.stdout
    assert "intact" in done.stdout
    assert len(files_of(folder)) == 2
    assert ReplayBuffer.load(folder).total_added == 500
    after = ReplayBuffer.load(str(folder) + "-other")
    assert after.total_added == 5510
    assert_true(after)


PEAK = """
import resource, sys, threading
import numpy as np
from ramledger.replay import Field, ReplayBuffer, Schema
WIDTH = 25_000
def rss(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10
def reset():
    open("/proc/self/clear_refs", "w").write("5")
buffer = ReplayBuffer(Schema(Field((WIDTH,), "uint8")), 12_000, seed=0)
rng = np.random.default_rng(0)
row = rng.integers(0, 256, WIDTH, dtype=np.uint8)
for at in range(12_000):
    later = np.roll(row, 1)
    buffer.add(row, 0.0, 0.0, later, False)
    row = later
buffer.save(sys.argv[1] + "/warm-up")
reset(); before = rss("VmRSS:")
buffer.save(sys.argv[1] + "/measured")
print(rss("VmHWM:") - before, buffer.used_bytes)
del buffer
reset(); before = rss("VmRSS:")
buffer = ReplayBuffer.load(sys.argv[1] + "/measured")
print(rss("VmHWM:") - before, buffer.used_bytes)
"""


def test_saving_and_loading_take_no_memory_worth_a_word(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    (save_peak, size), (load_peak, _) = (
        [int(number) for number in line.split()] for line in done.stdout.splitlines()
    )
    assert size > 290_000_000
    assert save_peak < 16 << 20
    assert load_peak < 1.05 * size + (8 << 20)
