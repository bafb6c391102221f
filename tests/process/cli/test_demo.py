"""The demo, as `make demo` runs it: to its end, and interrupted; no process is left behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.waiting import wait_until

DEMO = ROOT / "examples" / "demo.py"


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, DEMO],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "100", "RAMLEDGER_TEST_DEMO": str(os.getpid())},
        start_new_session=True,
    ) as process:
        yield process
        process.kill()


def trainings_left() -> list[int]:
    """Processes with the mark of this test in their environment."""
    mark = f"RAMLEDGER_TEST_DEMO={os.getpid()}".encode()
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if has(pid, mark)]


def assert_nothing_left() -> None:
    wait_until(lambda: not trainings_left(), why=trainings_left)


def has(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


@pytest.mark.timeout(900)
def test_it_tells_its_story_to_the_end(demo: subprocess.Popen[str], tmp_path: Path) -> None:
    out, _ = demo.communicate(timeout=840)
    assert demo.returncode == 0, out[-3000:]
    assert "Traceback" not in out
    parts = re.split(r"^== \d\. ", out, flags=re.M)
    assert len(parts) == 6
    _, plan, run, page, fix, apply = parts
    assert "does not fit" in plan and "run --apply replay" in plan
    assert re.search(r"^leak  train.py:\d+ adds to Trainer.recordings, which is never", run, re.M)
    assert "before.html" in page
    assert (tmp_path / "ramledger-demo" / "before.html").exists()
    assert "+        self.recordings = deque(maxlen=4)" in fix
    assert re.search(r"^fixed: the leak is gone", fix, re.M)
    assert_saved(apply)
    assert_nothing_left()


def assert_saved(text: str) -> None:
    """Less memory, and the very same numbers."""
    sums = re.findall(r"the parameters sum to ([\d.]+)", text)
    assert len(sums) == 2 and len(set(sums)) == 1
    assert re.search(r"peak [\d.,]+ MiB → [\d.,]+ MiB", text)
    before, after = map(float, re.findall(r"peak ([\d.]+) MiB → ([\d.]+) MiB", text)[0])
    assert before - after > 150  # of 269 MiB of observations, 34 are left


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_it_leaves_nothing_behind(
    demo: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("iteration "):
            break
    os.killpg(demo.pid, number)  # as a terminal does it: all of them get it
    out, _ = demo.communicate(timeout=100)
    assert demo.returncode in (130, -9)
    assert 'demo.py", line' not in out  # the training says that it was interrupted, we do not
    assert_nothing_left()
