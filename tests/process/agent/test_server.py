"""The agent, as others meet it: its socket, its manners, its end, and forks around it."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramledger.agent.server import socket_path
from tests.support.places import ROOT
from tests.support.waiting import wait_until

PROGRAM = ROOT / "tests" / "programs" / "enter_agent.py"


class Host:
    """A program with an agent, told what to do line by line."""

    def __init__(self, runtime: Path, *flags: str) -> None:
        environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(runtime),
            "PYTHONPATH": str(ROOT / "src"),
        }
        self.process = subprocess.Popen(
            [sys.executable, *flags, str(PROGRAM)],
            stdin=-1,
            stdout=-1,
            stderr=-1,
            text=True,
            env=environment,
        )
        self.pid = self.process.pid
        self.path = runtime / "ramledger" / f"{self.pid}.sock"
        assert self.read() == "ready"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.read()

    def ask(self, request: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(self.path))
            client.sendall(request)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))

    def ask_verb(self, verb: str) -> Any:
        return json.loads(self.ask(json.dumps({"verb": verb}).encode() + b"\n"))

    def end(self) -> str:
        self.process.kill()
        return self.process.communicate()[1]


@pytest.fixture
def runtime() -> Iterator[Path]:
    # pytest's own folders have names too long for a socket
    folder = Path(f"/tmp/rl-test-{os.getpid()}-{time.monotonic_ns()}")
    folder.mkdir(mode=0o700)
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if not path.is_dir() or path.is_symlink() else path.rmdir()
    folder.rmdir()


@pytest.fixture
def host(runtime: Path) -> Iterator[Host]:
    one = Host(runtime)
    one.do("start")
    yield one
    one.end()


def test_only_the_owner_can_reach_the_socket(host: Host) -> None:
    assert socket_path(host.pid) == str(host.path)
    mode = host.path.stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    folder = host.path.parent.stat()
    assert stat.S_IMODE(folder.st_mode) == 0o700 and folder.st_uid == os.geteuid()


def test_a_ping_is_answered_with_facts(host: Host) -> None:
    reply = host.ask_verb("ping")
    assert reply["pid"] == host.pid
    assert reply["python"] == ".".join(map(str, sys.version_info[:3]))
    status = Path(f"/proc/{host.pid}/status").read_text()
    rss_kib = next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS"))
    assert abs(reply["rss_bytes"] / 1024 - rss_kib) < 0.2 * rss_kib


def test_it_is_one_quiet_thread_however_often_it_is_started(host: Host) -> None:
    host.do("start")
    host.do("start")
    assert host.do("threads") == "MainThread"
    host.ask_verb("ping")  # by now it is all set up
    tasks = [
        task for task in Path(f"/proc/{host.pid}/task").iterdir() if task.name != str(host.pid)
    ]
    assert [(task / "comm").read_text() for task in tasks] == ["ramledger\n"]
    status = (tasks[0] / "status").read_text()
    blocked = next(int(x.split()[1], 16) for x in status.splitlines() if x.startswith("SigBlk"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGPROF):
        assert blocked >> (number - 1) & 1

    def is_asleep() -> bool:
        """It was not even woken for half a second: it clears up a while after the question."""
        before = (tasks[0] / "schedstat").read_text().split()[2]
        time.sleep(0.5)
        return (tasks[0] / "schedstat").read_text().split()[2] == before

    wait_until(is_asleep)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\n",
        b"no json\n",
        b"[1, 2]\n",
        b'{"verb": 7}\n',
        b'{"verb": "unknown"}\n',
        b'{"verb": "fail"}\n',
        b'{"verb": "odd"}\n',
        b"\xff\xfe\x00\n",
        b"[" * 60_000 + b"\n",
        b"x" * 200_000 + b"\n",
        b'{"verb": "ping"}',  # and no end of the line
    ],
    ids=lambda garbage: garbage[:12],
)
def test_nonsense_does_no_harm(garbage: bytes, host: Host) -> None:
    try:
        reply = host.ask(garbage)
    except OSError:
        reply = b""  # it hung up on us
    assert reply == b"" or "error" in json.loads(reply)
    assert host.ask_verb("ping")["pid"] == host.pid
    assert host.end() == ""


def test_a_reply_that_is_too_large_is_refused(host: Host) -> None:
    assert "too many" in host.ask_verb("large")["error"]


def test_a_client_that_says_nothing_keeps_nobody_waiting_for_long(host: Host) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(host.path))
        assert host.ask_verb("ping")["pid"] == host.pid


def test_a_client_that_leaves_does_no_harm(host: Host) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(host.path))
        client.sendall(b'{"verb": "slow"}\n')
    assert host.ask_verb("ping")["pid"] == host.pid


def test_it_ends_with_the_program_and_leaves_nothing(host: Host) -> None:
    assert host.path.exists()
    host.do("exit")
    assert host.process.wait(timeout=100) == 5
    assert not host.path.exists()
    assert host.end() == ""


def test_what_a_killed_process_left_is_removed_by_the_next(host: Host, runtime: Path) -> None:
    host.process.kill()
    host.process.wait()
    assert host.path.exists()
    other = Host(runtime)
    other.do("start")
    assert not host.path.exists()
    assert other.ask_verb("ping")["pid"] == other.pid
    other.end()


def test_a_live_socket_of_another_process_is_not_removed(host: Host, runtime: Path) -> None:
    other = Host(runtime)
    other.do("start")
    assert host.ask_verb("ping")["pid"] == host.pid
    other.end()


def test_another_program_in_the_same_process_starts_anew(host: Host) -> None:
    assert host.do("exec") == "ready"
    assert host.path.exists()
    with pytest.raises(ConnectionRefusedError):
        host.ask_verb("ping")
    host.do("start")
    assert host.ask_verb("ping")["pid"] == host.pid


@pytest.mark.parametrize("flags", [(), ("-W", "error")], ids=["plain", "warnings are errors"])
def test_a_forked_child_has_an_agent_of_its_own(flags: tuple[str, ...], runtime: Path) -> None:
    host = Host(runtime, *flags)
    host.do("start")
    for _ in range(3):
        word, child, has_socket = host.do("fork").split()
        assert (word, has_socket) == ("child", "True")
        assert host.read() == "status 0"
        assert not (host.path.parent / f"{child}.sock").exists()
        assert host.ask_verb("ping")["pid"] == host.pid
    assert host.end() == ""


def test_a_child_that_stays_does_not_answer_for_its_parent(host: Host) -> None:
    child = int(host.do("fork and stay"))
    try:
        assert host.ask_verb("ping")["pid"] == host.pid
        host.process.kill()
        host.process.wait()
        with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
            host.ask_verb("ping")
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["a link", "a file", "a missing folder"])
def test_a_runtime_folder_that_cannot_be_trusted_is_not_used(kind: str, runtime: Path) -> None:
    elsewhere = runtime / "elsewhere"
    elsewhere.mkdir()
    if kind == "a link":
        (runtime / "ramledger").symlink_to(elsewhere)
    elif kind == "a file":
        (runtime / "ramledger").touch()
    host = Host(runtime if kind != "a missing folder" else runtime / "missing")
    host.do("start")
    assert not list(elsewhere.iterdir())
    host.path = Path(f"/tmp/ramledger-{os.geteuid()}/{host.pid}.sock")
    assert socket_path(host.pid) == str(host.path)
    assert host.ask_verb("ping")["pid"] == host.pid
    host.do("exit")
    host.process.wait()
    host.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_gets_no_answer_even_if_the_socket_is_open_to_all(
    host: Host, runtime: Path
) -> None:
    for path in (runtime, host.path.parent, host.path):
        path.chmod(0o777)
    code = (
        "import os, socket, sys\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "client = socket.socket(socket.AF_UNIX); client.connect(sys.argv[1])\n"
        'client.sendall(b\'{"verb": "ping"}\\n\')\n'
        "print(client.recv(100))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(host.path)], capture_output=True, text=True, timeout=100
    )
    assert done.stdout in ("", "b''\n") and "PermissionError" not in done.stderr
    assert host.ask_verb("ping")["pid"] == host.pid


def test_an_agent_at_work_is_waited_for_at_the_end(host: Host, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(100)
        client.connect(str(host.path))
        marker = tmp_path / "begun"
        client.sendall(f'{{"verb": "slow", "marker": "{marker}"}}\n'.encode())
        wait_until(marker.exists)
        host.do("exit")
        assert json.loads(client.recv(1000)) == {"slept": True}
    assert host.process.wait(timeout=100) == 5
    assert host.end() == ""


WITHOUT_LIBGCC = """
import os, resource, sys
from ramledger.agent.start import serve_statements
from ramledger.agent.server import between_questions
between_questions(lambda: 0.0)
serve_statements()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
print("done", flush=True)
"""


def test_a_program_without_descriptors_ends_as_it_would(tmp_path: Path) -> None:
    """glibc aborts where a thread that Python's end finds cannot load libgcc_s to exit."""
    script = tmp_path / "program.py"
    script.write_text(WITHOUT_LIBGCC)
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=100
        )
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
