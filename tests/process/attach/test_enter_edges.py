"""Entering at bad moments and in bad places: a clear line for us, no harm for the process."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ramledger.attach.enter import ask_inside, permission_error
from ramledger.attach.target import survey
from ramledger.attach.tracee import Tracee
from ramledger.errors import MeasureError, NotPermittedError, ProcessGoneError
from ramledger.measure.proc import read_stat
from tests.support.places import PROGRAMS
from tests.support.waiting import wait_until

PING = {"verb": "ping"}

LATER = "import time; time.sleep(0.4); print(flush=True)\n"
ENDINGS = {
    "asleep": "time.sleep({0}); raise SystemExit(5)",
    "at work": "end = time.monotonic() + {0}\nwhile time.monotonic() < end: pass\n"
    "raise SystemExit(5)",
    "with threads": "import threading\n"
    "for _ in range(3): threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
    "time.sleep({0}); raise SystemExit(5)",
    "holding the GIL": "import ctypes\nctypes.PyDLL(None).usleep(int({0} * 1e6))\n"
    "raise SystemExit(5)",
    "at once": "import os\ntime.sleep({0}); os._exit(5)",
    "as another program": "import os, sys\ntime.sleep({0})\n"
    "os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(5)'])",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_that_ends_while_it_is_entered_ends_as_it_wanted(ending: str) -> None:
    for _ in range(6):
        code = LATER + ENDINGS[ending].format(random.uniform(0, 0.06))
        process = subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1)
        assert process.stdout is not None
        process.stdout.readline()
        try:
            assert ask_inside(process.pid, PING, starter="")["pid"] == process.pid
        except MeasureError as error:
            assert "\n" not in str(error)
        _, complaints = process.communicate(timeout=100)
        assert (process.returncode, complaints) == (5, b"")


def test_nothing_of_the_program_is_changed() -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", str(PROGRAMS / "enter_observer.py")],
        stdin=-1,
        stdout=-1,
        stderr=-1,
        text=True,
    )
    assert process.stdout is not None
    before = json.loads(process.stdout.readline())
    assert "threading" not in before["modules"]
    reply = ask_inside(process.pid, PING)
    assert reply["python"] == ".".join(map(str, sys.version_info[:3]))
    output, complaints = process.communicate("end\n", timeout=100)
    after = json.loads(output.splitlines()[0])
    gained = {name.split(".")[0] for name in set(after["modules"]) - set(before["modules"])}
    foreign = gained - {*sys.stdlib_module_names, "ramledger"}
    assert all(name.startswith("_sysconfigdata") for name in foreign)
    assert (
        after["names"] == sorted([*before["names"], "before"]) or after["names"] == before["names"]
    )
    assert after["path"] == before["path"]
    assert (process.returncode, complaints) == (5, "")
    assert output.splitlines()[1:] == ["done"]


PATCHED = """
import builtins, json, os, time
def refuse(*_, **__):
    raise RuntimeError("no")
print(flush=True)
time.sleep(0.6)
read, leave = os.read, os._exit
builtins.open = builtins.isinstance = os.stat = os.rename = os.listdir = json.dumps = refuse
print(flush=True)
read(0, 1)
leave(5)
"""


def test_a_program_that_replaced_what_we_use_hears_nothing_of_our_failure() -> None:
    process = subprocess.Popen([sys.executable, "-c", PATCHED], stdin=-1, stdout=-1, stderr=-1)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()
    with pytest.raises(MeasureError, match="our code failed inside") as caught:
        ask_inside(process.pid, PING)
    assert "\n" not in str(caught.value)
    _, complaints = process.communicate(timeout=100)
    assert (process.returncode, complaints) == (5, b"")


def test_a_process_that_holds_the_gil_is_given_up_and_goes_on(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    command = [sys.executable, str(PROGRAMS / "enter_target.py"), "holding_the_gil", str(counter)]
    process = subprocess.Popen(command, stderr=-1)
    try:
        wait_until(lambda: counter.exists() and any(counter.read_bytes()))
        with pytest.raises(MeasureError, match="GIL"):
            ask_inside(process.pid, PING, timeout_seconds=0.3)
        rounds = counter.read_bytes()
        wait_until(lambda: counter.read_bytes() != rounds)
        # our thread came too late, found that nobody waits, and is gone
        wait_until(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) <= 1)
    finally:
        process.kill()
        assert process.communicate()[1] == b""


def test_a_signal_that_stops_the_process_half_way_is_not_lost(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    command = [sys.executable, str(PROGRAMS / "enter_target.py"), "sleeping", str(counter)]
    process = subprocess.Popen(command)
    try:
        wait_until(lambda: counter.exists() and any(counter.read_bytes()))
        stopper = subprocess.Popen(["sh", "-c", f"sleep 0.03; kill -STOP {process.pid}"])
        with pytest.raises(MeasureError):
            for _ in range(200):
                ask_inside(process.pid, PING, timeout_seconds=1)
        stopper.wait()
        assert state_of(process.pid) == "T"
        process.send_signal(signal.SIGCONT)
        assert ask_inside(process.pid, PING)["pid"] == process.pid
    finally:
        process.kill()
        process.wait()


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_end_of_our_own_child_is_left_to_its_parent() -> None:
    code = LATER + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=-1)
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(MeasureError):
            ask_inside(process.pid, PING, starter="")
        process.communicate()
        assert process.returncode == -signal.SIGKILL


def test_a_zombie_and_a_kernel_thread_have_no_python() -> None:
    process = subprocess.Popen(["true"])
    deadline = time.monotonic() + 10
    while state_of(process.pid) != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(ProcessGoneError, match="zombie"):
        ask_inside(process.pid, PING)
    process.wait()
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
        with pytest.raises(MeasureError, match="kernel thread"):
            ask_inside(2, PING)


@pytest.mark.parametrize(
    ("scope", "words"),
    [("1\n", "only a parent"), ("2\n", "only root"), ("3\n", "nobody"), ("0\n", "refuses")],
)
def test_a_refusal_of_the_kernel_says_why(scope: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "ptrace_scope"
    file.write_text(scope)
    error = permission_error(os.getpid(), str(file))
    assert isinstance(error, NotPermittedError)
    assert words in str(error) and error.hint and "\n" not in str(error)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python has sys.remote_exec")
def test_remote_exec_is_refused_with_the_versions() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with pytest.raises(MeasureError, match=r"3\.14"):
            ask_inside(process.pid, PING, method="remote_exec")
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.version_info < (3, 14), reason="sys.remote_exec is new in Python 3.14")
def test_remote_exec_enters_a_program_that_runs(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "enter_target.py"), "sleeping", str(tmp_path / "c")]
    process = subprocess.Popen(command, stderr=-1)
    try:
        reply = ask_inside(process.pid, PING, method="remote_exec")
        assert reply["pid"] == process.pid
    finally:
        process.kill()
        assert process.communicate()[1] == b""


def test_a_process_without_an_agent_is_not_entered_when_only_that_is_asked() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with pytest.raises(MeasureError, match="no agent"):
            ask_inside(process.pid, PING, method="agent")
        # the visitor's thread may take a moment to end
        wait_until(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) <= 1)
    finally:
        process.kill()
        process.wait()


def test_a_stop_that_came_while_a_thread_was_held_arrives() -> None:
    code = "import time; print(flush=True); time.sleep(99)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        target = survey(process.pid)

        def hold() -> None:  # in a thread: whatever is still traced at its end is let go
            tracee = Tracee(process.pid, target.machine)
            tracee.stop(time.monotonic() + 20)
            tracee._held_back.append(signal.SIGSTOP)
            tracee.detach()

        thread = threading.Thread(target=hold)
        thread.start()
        thread.join()
        wait_until(lambda: read_stat(process.pid).state == "T")
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: read_stat(process.pid).state == "S")
        process.kill()
