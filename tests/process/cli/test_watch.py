"""`ramledger watch` on real processes: tables, logs, terminals, exit codes, and no traceback."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminals import Terminal, without_escapes
from tests.support.waiting import wait_until

COMMAND = str(Path(sys.executable).with_name("ramledger"))
NO_SUCH_PID = "4194304"  # the kernel numbers processes below this
MIB = 1 << 20

HOLDING = "import sys, threading, signal\n{before}\nprint('ready', flush=True)\nsys.stdin.read()"
GROWING = """
import sys, time
print('ready', flush=True)
held = []
while True:
    held.append(b'x' * (2 << 20))
    time.sleep(0.1)
"""


def watch(*arguments: str | int, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [COMMAND, "watch", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, **options,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python programs that say that they are ready; all are ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def one(code: str = HOLDING.format(before=""), *arguments: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], **pipes)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield one
    for process in started:
        process.kill()
        with process:
            pass


def smaps_rss(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("Rss:")[1].split()[0]) * 1024


class TestOnce:
    def test_one_table(self, start: Start) -> None:
        threads = "for _ in range(9): threading.Thread(target=signal.pause, daemon=True).start()"
        one = start(HOLDING.format(before="held = bytearray(b'x') * (64 << 20)\n" + threads))
        done = watch(one.pid, "--once")
        assert (done.returncode, done.stderr) == (0, "")
        header, row = done.stdout.splitlines()[:2]
        assert header.split()[:3] == ["pid", "RSS", "threads"]
        pid, rss, unit, count = row.split()[:4]
        assert (pid, unit, count) == (str(one.pid), "MiB", "10")
        assert abs(float(rss) * MIB - smaps_rss(one.pid)) < 2 * MIB

    def test_json_is_one_document(self, start: Start) -> None:
        one, other = start(), start()
        done = watch(one.pid, other.pid, "--once", "--json")
        document = json.loads(done.stdout)
        assert (done.returncode, done.stderr) == (0, "")
        found = {process["pid"]: process for process in document["processes"]}
        assert found.keys() == {one.pid, other.pid}
        for pid, process in found.items():
            assert abs(process["rss_bytes"] - smaps_rss(pid)) < 2 * MIB
            assert 0 < process["pss_bytes"] <= process["rss_bytes"] + 2 * MIB
        assert document["targets"] == []
        total = document["total"]
        assert total["rss_bytes"] == sum(p["rss_bytes"] for p in document["processes"])
        assert total["counted_once_bytes"] < total["rss_bytes"]

    @pytest.mark.parametrize(
        ("target", "code"),
        [
            ("rss=1GiB,threads=30,total=2GiB", 0),
            ("rss=1MiB", 3),
            ("threads=1", 0),
            ("threads=0", 3),
            ("total=1MiB", 3),
        ],
    )
    def test_targets_decide_the_exit_code(self, start: Start, target: str, code: int) -> None:
        done = watch(start().pid, "--once", "--target", target)
        assert (done.returncode, done.stderr) == (code, "")
        assert ("missed" in done.stdout) == (code == 3)

    def test_the_tree(self, start: Start) -> None:
        code = (
            "import subprocess, sys\n"
            "child = subprocess.Popen(['sleep', '100'])\n"
            "print('ready', flush=True); sys.stdin.read(); child.kill()"
        )
        one = start(code)
        alone = json.loads(watch(one.pid, "--once", "--json").stdout)
        tree = json.loads(watch(one.pid, "--once", "--json", "--tree").stdout)
        assert [process["pid"] for process in alone["processes"]] == [one.pid]
        commands = {process["command"]: process for process in tree["processes"]}
        assert commands["sleep 100"]["parent_pid"] == one.pid
        assert len(commands) == 2
        text = watch(one.pid, "--once", "--tree").stdout
        assert "2 processes" in text
        assert re.search(r"^ *total ", text, re.M)
        assert one.stdin is not None
        one.stdin.close()
        one.wait()


class TestMatching:
    def test_all_that_match_and_not_itself(self, start: Start) -> None:
        """Neither does the shell that holds the same words in its own command line."""
        mark = f"mark_{os.getpid()}_{time.monotonic_ns()}"
        pids = {start(HOLDING.format(before=""), mark, str(n)).pid for n in range(3)}
        start(HOLDING.format(before=""), "other")
        done = watch("--match", mark, "--once", "--json")
        assert {process["pid"] for process in json.loads(done.stdout)["processes"]} == pids
        shell = f"'{COMMAND}' watch --match {mark} --once --json; true"
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=100)
        assert {process["pid"] for process in json.loads(done.stdout)["processes"]} == pids

    def test_a_pattern_is_a_regular_expression(self, start: Start) -> None:
        mark = f"mark{time.monotonic_ns()}"
        one = start(HOLDING.format(before=""), f"{mark}_seed_12")
        start(HOLDING.format(before=""), f"{mark}_seed_x")
        done = watch("--match", rf"{mark}_seed_\d+$", "--once", "--json")
        assert [process["pid"] for process in json.loads(done.stdout)["processes"]] == [one.pid]

    def test_new_ones_are_added(self, start: Start) -> None:
        mark = f"mark{time.monotonic_ns()}"
        first = start(HOLDING.format(before=""), mark)
        with subprocess.Popen(
            [COMMAND, "watch", "--match", mark, "--every", "0.2", "--json"],
            stdout=subprocess.PIPE, text=True,
        ) as running:  # fmt: skip
            assert running.stdout is not None
            assert len(json.loads(running.stdout.readline())["processes"]) == 1
            second = start(HOLDING.format(before=""), mark)
            seen: set[int] = set()
            for _ in range(1_000):
                processes = json.loads(running.stdout.readline())["processes"]
                seen = {process["pid"] for process in processes}
                if len(seen) == 2:
                    break
            running.send_signal(signal.SIGINT)
            running.stdout.read()
        assert seen == {first.pid, second.pid}
        assert running.returncode == 130


class TestLogs:
    def test_one_line_a_look_and_the_end_is_said(self, start: Start) -> None:
        one = start(GROWING)
        with subprocess.Popen(
            [COMMAND, "watch", str(one.pid), "--every", "0.2"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as running:  # fmt: skip
            assert running.stdout is not None and running.stderr is not None
            lines = [running.stdout.readline() for _ in range(14)]
            one.kill()
            one.wait()
            rest = running.stdout.readlines()
            assert running.stderr.read() == ""
        assert running.returncode == 0
        assert all(re.match(rf"\d\d:\d\d:\d\d  {one.pid} python", line) for line in lines)
        rate = re.search(r"\+(\d+\.\d) (MiB|GiB)/min", lines[-1])
        assert rate is not None
        # 20 MiB a second at most, less where the program waits for a processor
        assert 0 < float(rate[1]) * (1024 if rate[2] == "GiB" else 1) / (20 * 60) < 1.2
        assert re.search(rf"{one.pid} python .* ended; it held \d+\.\d MiB last", rest[-1])

    def test_a_reader_that_went_away(self, start: Start) -> None:
        with subprocess.Popen(
            [COMMAND, "watch", str(start().pid), "--every", "0.1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as running:  # fmt: skip
            assert running.stdout is not None and running.stderr is not None
            running.stdout.readline()
            running.stdout.close()
            assert running.wait(100) == 1
            assert running.stderr.read() == ""

    def test_a_terminal_that_cannot_move_its_cursor(self, start: Start) -> None:
        one = start()
        command = [COMMAND, "watch", str(one.pid), "--every", "0.2"]
        with Terminal(command, environment={"TERM": "dumb"}) as terminal:
            terminal.expect(f"  {one.pid} python")
            terminal.expect(f"  {one.pid} python")
            terminal.type("\x03")
            assert terminal.wait() == 130
            assert "\x1b" not in terminal.shown


class TestTerminals:
    def test_control_c_leaves_a_clean_terminal_and_the_last_table(self, start: Start) -> None:
        one, other = start(), start(GROWING)
        command = [COMMAND, "watch", str(one.pid), str(other.pid), "--every", "0.2"]
        with Terminal(command) as terminal:
            before = terminal.attributes()
            terminal.expect("\x1b[?1049h")
            terminal.expect("2 processes")
            terminal.expect("2 processes")
            terminal.type("\x03")
            assert terminal.wait() == 130
            assert terminal.attributes() == before
        after = terminal.shown.rpartition("\x1b[?1049l")[2]
        assert "\x1b[?25h" in terminal.shown.rpartition("\x1b[?25l")[2]
        lines = without_escapes(after).splitlines()
        assert any(line.split()[:1] == [str(one.pid)] for line in lines)
        assert any("2 processes" in line for line in lines)
        assert "Traceback" not in terminal.shown

    def test_sigterm_leaves_a_clean_terminal_too(self, start: Start) -> None:
        with Terminal([COMMAND, "watch", str(start().pid), "--every", "0.2"]) as terminal:
            terminal.expect("growth/min")
            os.kill(terminal.process.pid, signal.SIGTERM)
            assert terminal.wait() == 128 + signal.SIGTERM
        assert "\x1b[?1049l" in terminal.shown
        assert "\x1b[?25h" in terminal.shown.rpartition("\x1b[?25l")[2]

    def test_a_process_that_ends_is_said(self, start: Start) -> None:
        one, other = start(), start()
        command = [COMMAND, "watch", str(one.pid), str(other.pid), "--every", "0.2"]
        with Terminal(command) as terminal:
            terminal.expect("2 processes")
            other.kill()
            other.wait()
            terminal.expect(f"{other.pid} python")
            terminal.expect(" ended; it held ")
            one.kill()
            one.wait()
            assert terminal.wait() == 0

    def test_another_size(self, start: Start) -> None:
        command = [COMMAND, "watch", str(start().pid), "--every", "0.2"]
        with Terminal(command, columns=160) as terminal:
            terminal.expect("shmem")
            terminal.resize(20, 62)
            terminal.read(1.0)
            narrow = without_escapes(terminal.shown.rpartition("growth/min")[0][-80:])
            assert "shmem" not in narrow
            terminal.type("\x03")
            assert terminal.wait() == 130


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            ([], 2, "nothing to watch"),
            (["--tree"], 2, "nothing to watch"),
            (["--match", ""], 2, "nothing to watch"),
            ([NO_SUCH_PID], 1, f"no process with pid {NO_SUCH_PID}"),
            (["0"], 2, "Must be >= 1"),
            (["99999999999999999999"], 2, "Must be <="),
            (["abc"], 2, "unable to convert"),
            (["--match", "no such words anywhere"], 1, "no process matches"),
            (["--match", "("], 2, "not a pattern"),
            (["1", "--target", "rss=much"], 2, "rss=15GiB,threads=30,total=25GiB"),
            (["1", "--target", "speed=3"], 2, "not a target: 'speed=3'"),
            (["1", "--every", "0"], 2, "Must be >= 0.1"),
            (["1", "--every", "nan"], 2, "--every"),
            (["1", "--bogus"], 2, "--bogus"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else None,
    )
    def test_one_line_and_a_code(self, arguments: list[str], code: int, said: str) -> None:
        done = watch(*arguments)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith("ramledger: ")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) <= 2

    def test_one_pid_of_two_is_gone(self, start: Start) -> None:
        done = watch(start().pid, NO_SUCH_PID, "--once")
        assert done.returncode == 1
        assert NO_SUCH_PID in done.stderr
        assert "growth/min" in done.stdout

    def test_the_same_pid_twice(self, start: Start) -> None:
        one = start()
        done = watch(one.pid, one.pid, "--once", "--json")
        assert done.returncode == 0
        assert len(json.loads(done.stdout)["processes"]) == 1

    def test_a_kernel_thread(self) -> None:
        if Path("/proc/2/exe").exists() or not Path("/proc/2/stat").exists():
            pytest.skip("no kernel threads here")
        done = watch("2", "--once")
        assert done.returncode == 1
        assert "kernel thread" in done.stderr

    def test_a_zombie(self, start: Start) -> None:
        one = start()
        one.kill()
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        done = watch(one.pid, "--once")
        assert done.returncode == 1
        assert "zombie" in done.stderr

    def test_a_thread(self, start: Start) -> None:
        before = "threading.Thread(target=signal.pause, daemon=True).start()"
        one = start(HOLDING.format(before=before))
        thread = max(int(name) for name in os.listdir(f"/proc/{one.pid}/task"))
        assert thread != one.pid
        done = watch(thread, "--once")
        assert done.returncode == 1
        assert f"is a thread of process {one.pid}" in done.stderr

    def test_a_process_of_another_user(self, start: Start) -> None:
        """What is public is shown; PSS is not public."""
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        one = start()
        # nobody need not be able to read this Python: what is needed is loaded before
        code = (
            "import codecs, os, sys\n"
            "from ramledger.cli.main import main\n"
            f"look = lambda: main(['watch', '{one.pid}', '--once', '--json'])\n"
            "look(); codecs.lookup('unicode_escape'); print('----', flush=True)\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "sys.exit(look())"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert (done.returncode, done.stderr) == (0, "")
        before, after = (json.loads(part) for part in done.stdout.split("----"))
        (public,) = after["processes"]
        assert abs(public["rss_bytes"] - smaps_rss(one.pid)) < 2 * MIB
        assert public["pss_bytes"] is None
        assert before["processes"][0]["pss_bytes"] is not None


def test_help_shows_examples() -> None:
    done = watch("--help")
    assert done.returncode == 0
    assert "--target rss=15GiB,threads=30\n" in done.stdout


def test_workers_of_ray_are_known_by_their_titles() -> None:
    titled = subprocess.Popen(["bash", "-c", "exec -a ray::Runner.sample sleep 60"])
    idle = subprocess.Popen(["bash", "-c", "exec -a ray::IDLE sleep 60"])
    try:
        titles = [Path(f"/proc/{one.pid}/cmdline") for one in (titled, idle)]
        wait_until(lambda: all(title.read_text().startswith("ray::") for title in titles))
        done = watch("--ray", "--once", "--json")
        pids = {row["pid"] for row in json.loads(done.stdout)["processes"]}
        assert titled.pid in pids
        assert idle.pid not in pids
    finally:
        titled.kill()
        idle.kill()
        titled.wait()
        idle.wait()


def test_ray_and_a_pattern_exclude_each_other() -> None:
    done = watch("--ray", "--match", "train.py", "--once")
    assert done.returncode == 2
    assert "exclude each other" in done.stderr
