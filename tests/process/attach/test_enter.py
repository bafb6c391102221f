"""Entering live processes of every mood: the answer comes, and the target goes on as before."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramledger.attach.enter import ask_inside
from ramledger.errors import MeasureError, NotPermittedError, ProcessGoneError
from ramledger.recorder.live_statement import explain_process
from ramledger.units import MIB
from tests.support.waiting import wait_until

PING = {"verb": "ping"}

# each writes a growing counter, so that we see it go on afterwards
COUNT = "import itertools, sys, time\ndef tell(n):\n    open(sys.argv[1], 'w').write(str(n))\n"
MOODS = {
    "sleeping": "for n in itertools.count():\n    tell(n); time.sleep(0.05)",
    "busy": ("n = 0\nwhile True:\n    n += 1\n    if n % 200_000 == 0:\n        tell(n)"),
    "in malloc": (
        "import threading\n"
        "def churn():\n"
        "    while True:\n        [bytes(100_000) for _ in range(50)]\n"
        "[threading.Thread(target=churn, daemon=True).start() for _ in range(3)]\n"
        "for n in itertools.count():\n    tell(n); time.sleep(0.02)"
    ),
    "long holds of the GIL": (
        "big = list(range(1_500_000))\n"
        "for n in itertools.count():\n    tell(n); big.reverse(); big.sort()"
    ),
    "many threads": (
        "import threading\nwake = threading.Event()\n"
        "[threading.Thread(target=wake.wait, daemon=True).start() for _ in range(50)]\n"
        "for n in itertools.count():\n    tell(n); time.sleep(0.05)"
    ),
    "training": (
        "import torch\nx = torch.randn(400, 400)\n"
        "for n in itertools.count():\n    x = torch.tanh(x @ x); tell(n)"
    ),
}


def start(code: str, counter: Path, *flags: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, *flags, "-c", COUNT + code, str(counter)])
    wait_until(lambda: process.poll() is not None or (counter.exists() and counter.read_text()))
    assert process.poll() is None
    return process


def count(counter: Path) -> int:
    for _ in range(50):
        text = counter.read_text()
        if text:
            return int(text)
        time.sleep(0.01)
    raise AssertionError("the counter is empty")


def assert_goes_on(process: subprocess.Popen[bytes], counter: Path) -> None:
    before = count(counter)
    deadline = time.monotonic() + 90
    while count(counter) == before:
        assert process.poll() is None, f"the target died with {process.returncode}"
        assert time.monotonic() < deadline, "the target hangs"
        time.sleep(0.05)
    assert state_of(process.pid) in "RSD"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    return tmp_path / "counter"


@pytest.mark.parametrize("mood", MOODS)
def test_a_target_answers_and_goes_on(mood: str, counter: Path) -> None:
    process = start(MOODS[mood], counter)
    try:
        reply = ask_inside(process.pid, PING, method="ptrace", timeout_seconds=60)
        assert reply["pid"] == process.pid
        assert_goes_on(process, counter)
        again = ask_inside(process.pid, PING, method="agent")
        assert again["pid"] == process.pid
        assert_goes_on(process, counter)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("flags", [("-I",), ("-S",), ("-E", "-s")])
def test_isolated_interpreters_can_be_entered(flags: tuple[str, ...], counter: Path) -> None:
    process = start(MOODS["sleeping"], counter, *flags)
    try:
        assert ask_inside(process.pid, PING)["pid"] == process.pid
        assert_goes_on(process, counter)
    finally:
        process.kill()
        process.wait()


def test_a_statement_costs_the_target_little(counter: Path) -> None:
    process = start("import numpy as np\na = np.ones(4_000_000)\n" + MOODS["sleeping"], counter)
    try:
        before = _rss(process.pid)
        statement = explain_process(process.pid, inside=True)
        assert statement.inside, statement.notes
        assert any(item.path == "a" for item in statement.large_objects)
        assert _rss(process.pid) - before < 15 * MIB
    finally:
        process.kill()
        process.wait()


def test_the_namespace_of_the_target_stays_clean(counter: Path) -> None:
    code = (
        "names, paths = set(globals()), list(sys.path)\n"
        "for n in itertools.count():\n"
        "    new = set(globals()) - names - {'__warningregistry__'}\n"
        "    assert new <= {'n', 'names', 'paths', 'new'}, new\n"
        "    assert sys.path == paths\n"
        "    tell(n); time.sleep(0.05)"
    )
    process = start(code, counter)
    try:
        ask_inside(process.pid, PING)
        assert_goes_on(process, counter)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def sleeper(counter: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = start(MOODS["sleeping"], counter)
    yield process
    process.kill()
    process.wait()


def test_a_stopped_target_is_left_stopped(sleeper: subprocess.Popen[bytes]) -> None:
    os.kill(sleeper.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(sleeper.pid) == "T")
    with pytest.raises(MeasureError, match="stopped"):
        ask_inside(sleeper.pid, PING, timeout_seconds=5)
    assert state_of(sleeper.pid) == "T"
    os.kill(sleeper.pid, signal.SIGCONT)


@pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb as the other tracer")
def test_a_target_that_is_traced_already(sleeper: subprocess.Popen[bytes], counter: Path) -> None:
    command = ["gdb", "-nx", "-batch", "-p", str(sleeper.pid), "-ex", "shell cat"]
    quiet = subprocess.DEVNULL
    tracer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
    status = Path(f"/proc/{sleeper.pid}/status")
    try:
        wait_until(lambda: f"TracerPid:\t{tracer.pid}\n" in status.read_text())
        with pytest.raises(MeasureError):
            ask_inside(sleeper.pid, PING, timeout_seconds=3)
    finally:
        tracer.communicate()
    assert_goes_on(sleeper, counter)


def test_a_process_that_is_not_python() -> None:
    process = subprocess.Popen(["sleep", "30"])
    try:
        with pytest.raises(MeasureError) as caught:
            ask_inside(process.pid, PING, timeout_seconds=5)
        assert caught.value.message.count("\n") == 0
        statement = explain_process(process.pid, inside=True)
        assert not statement.inside
        assert any("outside only" in note for note in statement.notes)
    finally:
        process.kill()
        process.wait()


def test_a_process_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessGoneError):
        ask_inside(process.pid, PING)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_users_process(sleeper: subprocess.Popen[bytes]) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            ask_inside(sleeper.pid, PING, timeout_seconds=5)
            os.write(write, b"entered")
        except NotPermittedError as error:
            os.write(write, f"refused: {error.hint}".encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as answer:
        assert answer.read().startswith("refused: ")
    os.waitpid(child, 0)


def _rss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))
