"""Borrowing a thread of a live process, again and again: nothing is lost, nothing stays behind."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramledger.attach.inject import start_python
from ramledger.attach.target import Target, survey
from tests.support.places import PROGRAMS

PROGRAM = PROGRAMS / "enter_target.py"
ENTRIES = 25


class Running:
    """One of the programs, its counter and what it printed."""

    def __init__(self, mode: str, folder: Path) -> None:
        self._counter = folder / "counter"
        command = [sys.executable, str(PROGRAM), mode, str(self._counter)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self.wait_for(lambda: self._counter.exists() and self.rounds > 0)

    @property
    def rounds(self) -> int:
        return int.from_bytes(self._counter.read_bytes(), "little")

    def wait_for(self, is_so: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "it hangs"
            time.sleep(0.005)

    def assert_goes_on(self) -> None:
        before = self.rounds
        self.wait_for(lambda: self.rounds > before + 2)

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def mappings(self) -> int:
        return len(Path(f"/proc/{self.pid}/maps").read_text().splitlines())

    def end(self) -> tuple[bytes, bytes]:
        self.process.kill()
        return self.process.communicate()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    started: list[Running] = []

    def start(mode: str) -> Running:
        started.append(Running(mode, tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.mark.parametrize(
    "mode",
    [
        *("sleeping", "allocating", "waiting_for_a_lock", "reading_a_pipe", "polling"),
        *("forking", "signaled", "calculating"),
    ],
)
def test_every_entry_runs_once_and_leaves_nothing(
    mode: str, run: Callable[[str], Running], tmp_path: Path
) -> None:
    target = run(mode)
    time.sleep(0.3)
    ran = tmp_path / "ran"
    ran.touch()
    append = f"open({str(ran)!r}, 'a', 1).write('x')\n"
    surveyed = survey(target.pid)
    enter_once(surveyed, append, target, ran, 1)
    threads, mappings = target.threads(), target.mappings()
    for entry in range(2, ENTRIES + 1):
        enter_once(surveyed, append, target, ran, entry)
    target.assert_goes_on()
    # the C library keeps the stacks and arenas of some ended threads: bounded, not one per entry
    assert target.mappings() <= mappings + ENTRIES // 2
    target.wait_for(lambda: target.threads() <= threads)
    assert all(b"TracerPid:\t0\n" in status for status in statuses(target.pid))
    _, complaints = target.end()
    # a process that forks all the time can meet our thread before it can hide itself
    assert not complaints or (mode == "forking" and b"DeprecationWarning" in complaints)


def enter_once(surveyed: Target, source: str, target: Running, ran: Path, entry: int) -> None:
    start_python(surveyed, source, time.monotonic() + 60)
    target.wait_for(lambda: ran.stat().st_size >= entry)
    assert ran.stat().st_size == entry


def test_a_sleep_that_is_interrupted_keeps_its_length(run: Callable[[str], Running]) -> None:
    target = run("sleeping_once")
    time.sleep(0.4)
    surveyed = survey(target.pid)
    for _ in range(5):
        start_python(surveyed, "None\n", time.monotonic() + 60)
    output, complaints = target.process.communicate(timeout=100)
    assert 2.5 <= float(output) < 2.5 * 1.5
    assert not complaints


def statuses(pid: int) -> list[bytes]:
    return [path.read_bytes() for path in Path(f"/proc/{pid}/task").glob("*/status")]
