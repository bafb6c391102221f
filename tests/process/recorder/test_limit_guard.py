"""What `--on-limit stop` ends: the processes that it saw, and no other that has their pids."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ramledger.errors import MeasureError
from ramledger.measure import proc
from ramledger.measure.known_process import KnownProcess

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
STOPS = """
import os, signal, subprocess, sys, time
from ramledger.recorder.tree_sampler import TreeSampler
from ramledger.recorder.limit_guard import LimitGuard
from ramledger.ledger import Limit

TRAINING = '''
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
worker = subprocess.Popen(["sleep", "600"])
print(worker.pid, flush=True)
worker.wait()
print("reaped", flush=True)
signal.pause()
'''
training = subprocess.Popen([sys.executable, "-c", TRAINING], stdout=-1)
worker = int(training.stdout.readline())
sampler = TreeSampler(training.pid)
while len((sample := sampler.sample()).processes) < 2:
    time.sleep(0.01)
time.sleep(0.1)  # start times are in ticks of 10 ms; no pid comes round in less
guard = LimitGuard(Limit(1, "--limit"), "stop", grace_seconds=4.0)
guard.check(sample, time.monotonic())
os.kill(worker, signal.SIGKILL)
training.stdout.readline()
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(worker - 1))
stranger = subprocess.Popen(["sleep", "600"])
assert stranger.pid == worker, (stranger.pid, worker)
training.wait(60)
time.sleep(1.0)
print(training.returncode, stranger.poll())
"""


def can_choose_pids() -> bool:
    if shutil.which("unshare") is None:
        return False
    test = "test -w /proc/sys/kernel/ns_last_pid"
    return subprocess.run([*UNSHARE, "sh", "-c", test], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_choose_pids(), reason="only root can choose the next pid")
def test_a_stranger_with_the_pid_of_a_worker_that_ended_lives() -> None:
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", STOPS], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == (f"{-signal.SIGKILL} None\n", "")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_known_process_is_signaled(sleeper: "subprocess.Popen[bytes]") -> None:
    known = KnownProcess.of(sleeper.pid)
    assert known.is_there and known.send(signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM
    assert not known.is_there and not known.send(signal.SIGKILL)
    with pytest.raises(MeasureError):
        KnownProcess.of(sleeper.pid)


def test_another_process_with_its_pid_is_not(sleeper: "subprocess.Popen[bytes]") -> None:
    before = KnownProcess(sleeper.pid, proc.read_stat(sleeper.pid).start_ticks - 1)
    assert not before.is_there
    assert not before.send(signal.SIGKILL)
    assert not before.send_to_group(signal.SIGKILL)
    assert sleeper.poll() is None


def test_without_pidfds_the_start_time_is_compared(
    sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    known = KnownProcess.of(sleeper.pid)
    assert not KnownProcess(known.pid, known.start_ticks - 1).send(signal.SIGKILL)
    assert sleeper.poll() is None
    assert known.send(signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM


def test_a_group_is_signaled_also_after_its_leader_ended() -> None:
    code = "sleep 600 & echo $!; exec cat"
    with subprocess.Popen(
        ["sh", "-c", code], stdin=-1, stdout=-1, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        member = KnownProcess.of(int(process.stdout.readline()))
        leader = KnownProcess.of(process.pid)
        process.stdin.close()
        process.wait()
        assert member.is_there and not leader.is_there
        assert leader.send_to_group(signal.SIGKILL)
        assert process.stdout.read() == b""  # nobody holds the other end any more
