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
def demo() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, DEMO],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "100", "RAMLEDGER_TEST_DEMO": str(os.getpid())},
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


@pytest.mark.timeout(600)
def test_it_tells_its_story_to_the_end(demo: subprocess.Popen[str]) -> None:
    out, errors = demo.communicate(timeout=540)
    assert demo.returncode == 0, errors
    assert "Traceback" not in errors
    assert re.findall(r"^== (\d)\. ", out, re.M) == ["1", "2", "3", "4"]
    outside, *_, with_agent = re.split(r"^\$ ramledger explain ", out, flags=re.M)[1:]
    assert "seen from outside" in outside
    assert "replay" not in outside
    assert re.search(r"^(replay/observations|replay/dones|imports/torch) ", with_agent, re.M)
    assert re.search(r"^from 'empty' to 'after': RSS \+(6[6-9]|7\d)\.\d MiB", out, re.M)
    assert_nothing_left()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_interrupted_it_leaves_nothing_behind(
    demo: subprocess.Popen[str], number: signal.Signals, code: int
) -> None:
    assert demo.stdout is not None
    while "Wait for step" not in demo.stdout.readline():
        pass
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=100)
    assert demo.returncode == code
    assert "Traceback" not in errors
    assert_nothing_left()
