"""`ramledger explain` on real processes: what it prints, its exit codes, and never a traceback."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ramledger.agent.launch_environment import environment_with_agent
from tests.support.slow_notice import without_slow_notice
from tests.support.waiting import wait_until

COMMAND = Path(sys.executable).with_name("ramledger")
NO_SUCH_PID = "4194304"  # the kernel numbers processes below this

HOLDING = "import sys; print('ready', flush=True); sys.stdin.read()"
HALF_FULL = f"""
import numpy as np
def train():
    replay = np.zeros((2000, 64 * 1024), np.uint8)
    replay[:1000] = 1
    {HOLDING}
train()
"""
# libc's sleep called through PyDLL keeps the interpreter's lock: nobody else can run Python
HOLDS_THE_LOCK = """
import ctypes
print('ready', flush=True)
ctypes.PyDLL(None).sleep(60)
"""
WITH_CHILDREN = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', {HOLDING!r}], stdin=sys.stdin, stdout=-1, text=True)
child.stdout.readline()
{HOLDING}
"""


def explain(
    *arguments: str | int, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [COMMAND, "explain", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | (environment or {}),
    )
    assert "Traceback" not in done.stderr
    done.stderr = without_slow_notice(done.stderr)
    return done


@contextmanager
def python(code: str, *, agent: bool = False) -> Iterator[int]:
    """A Python process that runs `code`, which prints one line when it is ready."""
    environment = environment_with_agent(os.environ) if agent else dict(os.environ)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def document(*arguments: str | int) -> dict[str, Any]:
    done = explain(*arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_balanced(statement: dict[str, Any]) -> None:
    booked = sum(account["resident_bytes"] for account in statement["accounts"])
    assert booked + statement["unexplained_bytes"] == statement["rss_bytes"]
    assert statement["unexplained_bytes"] >= 0
    for child in statement["children"]:
        assert_balanced(child)


# ---- what it prints ----------------------------------------------------------------------------


def test_any_process_gets_a_statement() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        done = explain(process.pid)
        process.kill()
    assert (done.returncode, done.stderr) == (0, "")
    head, body = done.stdout.split("\n\n", 1)
    assert head.startswith(f"sleep 60  pid {process.pid}\nRSS ")
    assert "1 thread · " in head
    assert body.startswith("account")
    assert re.search(r"^RSS +[\d.]+ MiB +100\.0%$", body, re.M)
    assert "--inside" not in body  # there is no Python in it


def test_a_buffer_is_named_by_the_agent_without_being_asked_to_enter() -> None:
    with python(HALF_FULL, agent=True) as pid:
        done = explain(pid)
        found = document(pid)
    assert done.returncode == 0
    owner, sizes = done.stdout.partition("large objects")[2].splitlines()[1:3]
    assert owner.endswith("train():replay")
    assert re.fullmatch(
        r" +6[2-6]\.\d MiB of 125\.0 MiB, 5[0-3]% full · ndarray uint8 2000×65536", sizes
    )
    assert found["inside"] is True
    assert_balanced(found)
    (item,) = found["large_objects"]
    assert item["reserved_bytes"] == 2000 * 64 * 1024
    # huge pages become resident 2 MiB at a time, at both ends of what was written
    assert 0 <= item["resident_bytes"] - 1000 * 64 * 1024 <= 4 << 20


def test_inside_enters_a_process_that_knows_nothing_of_us() -> None:
    with python(HALF_FULL) as pid:
        before = document(pid)
        inside = document(pid, "--inside")
    assert before["inside"] is False
    assert before["large_objects"] == []
    assert_balanced(before)
    if not inside["inside"]:  # some systems let nobody enter: then it says why
        assert any("outside only" in note for note in inside["notes"])
        pytest.skip("this system allows no process to be entered")
    assert_balanced(inside)
    assert [item["dtype"] for item in inside["large_objects"]] == ["uint8"]


def test_inside_a_process_without_python_is_seen_from_outside() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        done = explain(process.pid, "--inside")
        process.kill()
    assert done.returncode == 0
    assert "note: seen from outside only: " in done.stdout


def test_the_tree_has_every_child_and_its_pages_once() -> None:
    with python(WITH_CHILDREN) as pid:
        found = document(pid, "--tree")
        done = explain(pid, "--tree")
    assert_balanced(found)
    (child,) = found["children"]
    assert child["pid"] != pid
    assert child["pss_bytes"] < child["rss_bytes"]
    assert re.search(rf"^ *{child['pid']} +[\d.]+ MiB +[\d.]+ MiB", done.stdout, re.M)
    assert re.search(r"^ *total ", done.stdout, re.M)


def test_top_limits_the_rows_of_the_table() -> None:
    with python(HALF_FULL) as pid:
        done = explain(pid, "--top", 2)
    table = done.stdout.split("\n\n")[1].splitlines()
    first, second, rest, unexplained, total = [
        line.split("  ")[0] for line in table if re.search(r"iB +\d+\.\d%", line)
    ]
    assert re.match(r"\d+ smaller accounts$", rest)
    assert (unexplained, total) == ("unexplained", "RSS")
    assert first != second


def test_several_processes_and_one_that_is_gone() -> None:
    with python(HOLDING) as first, python(HOLDING) as second:
        done = explain(first, NO_SUCH_PID, second)
        listed = explain(first, NO_SUCH_PID, second, "--json")
    assert done.returncode == listed.returncode == 1
    assert re.findall(r"  pid (\d+)$", done.stdout, re.M) == [str(first), str(second)]
    assert done.stderr.startswith(f"ramledger: no process with pid {NO_SUCH_PID}\n")
    documents = json.loads(listed.stdout)
    assert [found["pid"] for found in documents] == [first, second]
    for found in documents:
        assert_balanced(found)


def test_the_document_has_what_the_contract_says() -> None:
    with python(HOLDING) as pid:
        found = document(pid)
    assert found["schema"] == "ramledger.statement/1"
    promised = {
        *("pid", "command", "at", "rss_bytes", "pss_bytes", "uss_bytes", "vms_bytes"),
        *("swap_bytes", "threads", "uptime_seconds", "limit", "accounts", "unexplained_bytes"),
        *("named_fraction", "owned_fraction", "children", "advice", "remarks"),
    }
    assert promised <= found.keys()
    entry = {"account", "resident_bytes", "reserved_bytes", "objects", "fill", "source"}
    assert all(entry <= account.keys() for account in found["accounts"])
    assert found["limit"].keys() == {"bytes", "source"}


# ---- streams -----------------------------------------------------------------------------------


def test_a_narrow_terminal_gets_narrow_lines() -> None:
    with python(HALF_FULL, agent=True) as pid:
        done = explain(pid, environment={"COLUMNS": "60"})
    assert max(map(len, done.stdout.splitlines())) <= 60


def test_a_pipe_gets_plain_text() -> None:
    with python(HOLDING) as pid:
        done = explain(pid)
    assert "\x1b" not in done.stdout


def test_a_command_line_cannot_draw_on_the_screen() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, "\x1b[2J", "[bold]x", "a\nb", "\udcff"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        done = explain(process.pid)
        listed = explain(process.pid, "--json")
        process.kill()
    assert done.returncode == listed.returncode == 0
    assert "\x1b" not in done.stdout
    assert "[bold]x" in json.loads(listed.stdout)["command"]


def test_waiting_is_explained_and_can_be_interrupted() -> None:
    with python(HOLDS_THE_LOCK) as pid:
        started = time.monotonic()
        with subprocess.Popen(
            [COMMAND, "explain", str(pid), "--inside"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as asking:
            assert asking.stderr is not None
            first = asking.stderr.readline()
            waited = time.monotonic() - started
            asking.send_signal(signal.SIGINT)
            out, rest = asking.communicate(timeout=100)
        still_there = Path(f"/proc/{pid}").exists()
    assert first == f"ramledger: still reading process {pid} …\n"
    assert waited >= 2.0
    assert (asking.returncode, out, rest) == (130, "", "")
    assert still_there


# ---- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("pid", ["0", "-1", "abc", str(2**40), "1.5", "", "٣"])
def test_what_is_no_process_id_is_wrong_usage(pid: str) -> None:
    done = explain(pid)
    assert (done.returncode, done.stdout) == (2, "")
    line, hint = done.stderr.splitlines()
    assert line.startswith(f"ramledger: not a process ID: {pid!r}")
    assert hint == "  hint: ramledger explain --help"


def test_a_process_that_has_ended() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    done = explain(process.pid)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ramledger: no process with pid {process.pid}\n  hint: ")


def test_a_zombie_has_no_memory() -> None:
    with subprocess.Popen(["true"]) as process:
        wait_for_state(process.pid, "Z")
        done = explain(process.pid)
        inside = explain(process.pid, "--inside")
        found = document(process.pid)
    assert (done.returncode, done.stderr) == (0, "")
    assert "a zombie: it has no memory of its own" in done.stdout
    assert found["rss_bytes"] == 0
    assert "zombie" in inside.stdout + inside.stderr


def wait_for_state(pid: int, state: str) -> None:
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == state)


def test_a_kernel_thread_has_no_memory() -> None:
    threads = [path.parent.name for path in Path("/proc").glob("[0-9]*/stat") if is_kernel(path)]
    if not threads:
        pytest.skip("a container shows no kernel threads")
    done = explain(threads[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert "a kernel thread: it has no memory of its own" in done.stdout


def is_kernel(stat: Path) -> bool:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return bool(int(fields[6]) & 0x00200000)  # PF_KTHREAD


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user, which only root can become")
def test_another_users_process_is_refused_in_one_line() -> None:
    nobody = 65534
    with python(HOLDING) as pid:
        done = subprocess.run(
            [sys.executable, "-c", AS_USER, str(nobody), str(pid)], capture_output=True, text=True
        )
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.match(rf"ramledger: not permitted .*process {pid}\n  hint: ", done.stderr)


# the interpreter may lie where another user cannot read: import first, change the user then
AS_USER = """
import os, sys
from ramledger.cli import explain, main
import ramledger.recorder.live_statement, ramledger.report.terminal.statement_text
os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
sys.exit(main.main(["explain", sys.argv[2]]))
"""
