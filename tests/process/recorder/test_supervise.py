"""A supervised command behaves as if nobody were there: codes, signals, stops, descriptors."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ramledger.recorder.supervise import (
    Callbacks,
    Outcome,
    cannot_start,
    die_like,
    supervise,
)
from tests.support.places import PROGRAMS
from tests.support.process_families import kill
from tests.support.waiting import wait_until

SUPERVISED = [sys.executable, str(PROGRAMS / "run_supervised.py")]
SIGNALS = [sys.executable, "-I", str(PROGRAMS / "run_signals.py")]


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-c", code]


def finished(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SUPERVISED, *command], capture_output=True, text=True, timeout=100, **options
    )


def outcome_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def state_of(pid: int) -> str:
    """One letter, as ps(1) prints it; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


@contextmanager
def running(*command: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A supervisor that has started its child, and the child's pid."""
    process = subprocess.Popen(
        [*SUPERVISED, *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        **options,
    )  # fmt: skip
    assert process.stderr is not None
    pid = int(process.stderr.readline().split()[1])
    try:
        yield process, pid
    finally:
        kill(pid)
        process.kill()
        process.communicate(timeout=100)


# ---- the end --------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_exit_code_is_the_childs(code: int) -> None:
    done = finished(*python(f"raise SystemExit({code})"))
    assert done.returncode == code
    assert (outcome_of(done)["exit_code"], outcome_of(done)["signal"]) == (code, None)


def test_an_exit_that_skips_all_clean_up_is_an_exit() -> None:
    assert finished(*python("import os; os._exit(9)")).returncode == 9


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_death_by_a_signal_is_the_same_death(number: signal.Signals, tmp_path: Path) -> None:
    done = finished(*python(f"import os; os.kill(os.getpid(), {int(number)})"), cwd=tmp_path)
    assert done.returncode == -number
    assert outcome_of(done)["signal"] == number
    shell = f"{' '.join(SUPERVISED)} sh -c 'kill -{int(number)} $$'; echo code $?"
    told = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, cwd=tmp_path)
    assert told.stdout.splitlines()[-1] == f"code {128 + number}"


def test_only_the_child_leaves_a_core() -> None:
    """With cores allowed, the copy of a death by SIGSEGV still has none of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    status = subprocess.run(
        python(
            "import os, resource, signal\n"
            f"resource.setrlimit(resource.RLIMIT_CORE, ({hard}, {hard}))\n"
            "from ramledger.recorder.supervise import Outcome, die_like\n"
            "pid = os.fork()\n"
            "if not pid:\n    die_like(Outcome(signal=signal.SIGSEGV))\n"
            "status = os.waitpid(pid, 0)[1]\n"
            "print(os.WTERMSIG(status) == signal.SIGSEGV, os.WCOREDUMP(status))\n"
        ),
        capture_output=True, text=True,
    )  # fmt: skip
    assert resource.getrlimit(resource.RLIMIT_CORE) == (soft, hard)
    assert status.stdout.split() == ["True", "False"]


def test_die_like_returns_a_plain_code() -> None:
    assert die_like(Outcome(exit_code=5)) == 5


# ---- the start ------------------------------------------------------------------------------


def test_a_missing_command_is_127_and_one_line() -> None:
    outcome = supervise(["no-such-command-anywhere"], os.environ, Callbacks(lambda pid: None))
    assert outcome == Outcome(127, problem="command not found: no-such-command-anywhere")
    assert cannot_start(["no-such-command-anywhere"], os.environ) == outcome
    assert cannot_start(["./no/such"], os.environ) == Outcome(
        127, problem="command not found: ./no/such"
    )


def test_what_may_not_be_executed_is_126(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print()")
    for command in (["./train.py"], [str(tmp_path)]):
        outcome = supervise(command, os.environ, Callbacks(lambda pid: None))
        assert outcome.exit_code == 126
        assert cannot_start(command, os.environ) == outcome
    assert "is a directory" in outcome.problem
    missing = cannot_start(["train.py"], os.environ)
    assert missing is not None
    assert missing.exit_code == 127
    assert "did you mean `python train.py`?" in missing.problem


def test_codes_are_those_of_a_shell(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("not a program")
    for command in ("no-such-command-anywhere", "./plain", "."):
        shell = subprocess.run(["bash", "-c", f"exec {command}"], cwd=tmp_path, capture_output=True)
        ours = finished(command, cwd=tmp_path)
        assert ours.returncode == shell.returncode


def test_a_script_without_an_interpreter_line_is_the_shells(tmp_path: Path) -> None:
    script = tmp_path / "go"
    script.write_text('echo "$0 has $1"; exit 4\n')
    script.chmod(0o755)
    done = finished(str(script), "one argument")
    assert done.returncode == 4
    assert f"{script} has one argument" in done.stdout.splitlines()


def test_programs_are_found_as_the_childs_path_says(tmp_path: Path) -> None:
    for name, code in (("first", 1), ("second", 2)):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "tool"
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        program.chmod(0o644 if name == "first" else 0o755)
    path = f"{tmp_path}/none:{tmp_path}/first:{tmp_path}/second"
    assert supervise(["tool"], {"PATH": path}, Callbacks(lambda pid: None)).exit_code == 2


# ---- what the child inherits ----------------------------------------------------------------


def test_the_child_has_our_descriptors_directory_and_signal_settings(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "status = open('/proc/self/status').read().split()\n"
        "facts = [status[status.index(n) + 1] for n in ('SigBlk:', 'SigIgn:', 'SigCgt:')]\n"
        # 32 and 33 are glibc's own, and its posix_spawn ignores them until threads need them
        "facts = [hex(int(fact, 16) & ~(3 << 31)) for fact in facts]\n"
        "fds = sorted(int(fd) for fd in os.listdir('/proc/self/fd'))\n"
        "files = [os.readlink(f'/proc/self/fd/{fd}') for fd in fds if fd < 3]\n"
        "print(os.getcwd(), os.getpgrp(), facts, files)\n"
    )
    out, log, pair = tmp_path / "out", tmp_path / "log", []
    for supervisor in ([], SUPERVISED):
        # a group of its own, so that both print the group they were started in
        with out.open("w") as stdout, log.open("w") as stderr:
            shell = ["bash", "-c", 'trap "" USR2; exec "$@"', "-", *supervisor, *python(code)]
            process = subprocess.Popen(
                shell, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=tmp_path,
                process_group=0,
            )  # fmt: skip
            assert process.wait(100) == 0
        line = next(x for x in out.read_text().splitlines() if str(tmp_path) in x)
        pair.append(line.replace(f" {process.pid} ", " GROUP "))
    assert " GROUP " in pair[0]
    assert pair[0] == pair[1]


def test_standard_input_is_read_by_the_child_alone() -> None:
    with running(*python("print(input()); print(input())")) as (process, _):
        out, _ = process.communicate("first\nsecond\nthird\n", timeout=100)
    assert out.splitlines()[:2] == ["first", "second"]


def test_the_environment_is_what_was_given() -> None:
    # /proc, for the interpreter may add LC_CTYPE to what it was given
    code = "print(open('/proc/self/environ').read() == 'ONLY=this\\0')"
    program = (
        "from ramledger.recorder.supervise import Callbacks, supervise\n"
        f"supervise({python(code)!r}, {{'ONLY': 'this'}}, Callbacks(lambda pid: None))\n"
    )
    done = subprocess.run(python(program), capture_output=True, text=True, timeout=100)
    assert done.stdout == "True\n"


def test_output_can_go_elsewhere(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        outcome = supervise(
            ["echo", "hello"], os.environ, Callbacks(lambda pid: None), streams={1: file.fileno()}
        )
    assert outcome.exit_code == 0
    assert (tmp_path / "out").read_text() == "hello\n"


# ---- signals --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGINT", "SIGQUIT"])
def test_a_signal_sent_to_us_reaches_the_child_once(name: str) -> None:
    with running(*SIGNALS) as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.Signals[name])
        assert process.stdout.readline() == f"got {name}\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=100)
    assert out.splitlines()[0] == "got SIGTERM"
    assert process.returncode == 7


def test_a_child_without_a_handler_dies_of_what_we_are_sent() -> None:
    with running(*SIGNALS, "quick") as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
    assert process.returncode == -signal.SIGTERM


def test_what_the_child_sends_to_its_whole_group_is_not_sent_back() -> None:
    code = (
        "import os, signal, time\n"
        "got = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: got.append(1))\n"
        "os.kill(0, signal.SIGUSR1)\n"
        "time.sleep(0.5)\n"
        "raise SystemExit(len(got))\n"
    )
    done = finished(*python(code), process_group=0)
    assert done.returncode == 1


def test_a_signal_that_was_ignored_from_outside_stays_ignored() -> None:
    shell = ["sh", "-c", 'trap "" HUP; exec "$@"', "-", *SUPERVISED, *SIGNALS, "quick"]
    process = subprocess.Popen(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    pid = int(process.stderr.readline().split()[1])
    assert process.stdout.readline() == "ready\n"
    for victim in (pid, process.pid):
        os.kill(victim, signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    os.kill(pid, signal.SIGTERM)
    process.communicate(timeout=100)
    assert process.returncode == -signal.SIGTERM


def test_a_child_that_is_stopped_and_continued_from_outside_goes_on() -> None:
    with running(*SIGNALS) as (process, pid):
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state_of(pid) == "T")
        time.sleep(0.2)
        assert state_of(process.pid) == "S"  # nobody would continue us: we did not stop as well
        os.kill(pid, signal.SIGCONT)
        assert process.stdout.readline() == "got SIGCONT\n"
        process.terminate()
        process.communicate(timeout=100)
    assert process.returncode == 7


def test_continuing_us_continues_a_stopped_child() -> None:
    with running(*SIGNALS) as (process, pid):
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state_of(pid) == "T")
        wait_until(lambda: state_of(process.pid) == "S")
        time.sleep(0.1)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "got SIGCONT\n"


HELD = """
import os, signal
from ramledger.recorder.supervise import signals_held
before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
with signals_held() as mask:
    assert mask == before
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.SIGTERM in signal.sigpending()
assert not signal.sigpending()
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
"""


def test_signals_are_held_and_given_back() -> None:
    # in a process of its own: a thread of a pytest plugin would take the signal
    subprocess.run([sys.executable, "-c", HELD], check=True)


# ---- nobody is hurt by anybody --------------------------------------------------------------


def test_the_child_outlives_us_undisturbed(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    code = (
        "import sys, time\n"
        "for n in range(300):\n"
        f"    open({str(marks)!r}, 'a').write(f'{{n}}\\n')\n"
        "    print('output', flush=True); time.sleep(0.02)\n"
    )
    with (tmp_path / "out").open("w") as out, (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*SUPERVISED, *python(code)], stdout=out, stderr=log)
        wait_until(lambda: marks.exists() and len(marks.read_text().split()) > 3)
        wait_until(lambda: (tmp_path / "log").read_text().endswith("\n"))
        pid = int((tmp_path / "log").read_text().split()[1])
        process.kill()
        process.wait(100)
        count = len(marks.read_text().split())
        wait_until(lambda: len(marks.read_text().split()) > count + 5)
        assert (tmp_path / "out").read_text().count("output") > count
        os.kill(pid, signal.SIGKILL)


def test_no_zombie_is_left() -> None:
    done = finished(*python("pass"))
    pid = int(done.stderr.split()[1])
    assert state_of(pid) == ""


def test_an_error_of_ours_is_told_after_the_child_and_does_not_end_it() -> None:
    done = finished(
        *python("import time; time.sleep(0.4); raise SystemExit(6)"),
        env={**os.environ, "BREAK_TICK": "1"},
    )
    found = outcome_of(done)
    assert (done.returncode, found["ticks"]) == (6, 1)
    assert "the view is broken" in found["callback_error"]


def test_ticks_come_while_the_child_runs(tmp_path: Path) -> None:
    """The child waits for five of them; they are at least `tick_seconds` apart."""
    counter = tmp_path / "ticks"
    code = (
        "import os, time\n"
        f"while not os.path.exists({str(counter)!r}) or os.path.getsize({str(counter)!r}) < 5:\n"
        "    time.sleep(0.005)\n"
    )
    began = time.monotonic()
    done = finished(*python(code), env={**os.environ, "COUNT_TICKS": str(counter)})
    assert 5 <= outcome_of(done)["ticks"] <= 1 + (time.monotonic() - began) / 0.02


def test_a_child_that_detaches_does_not_hold_us(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        f"while not os.path.exists({str(tmp_path / 'pid')!r}): time.sleep(0.01)\n"
        "time.sleep(0.1)\n"
        "raise SystemExit(3)\n"
    )
    with (tmp_path / "out").open("w") as out:
        code_found = subprocess.run(
            [*SUPERVISED, *python(code)], stdout=out, timeout=100
        ).returncode
    pid = int((tmp_path / "pid").read_text())
    assert code_found == 3
    assert state_of(pid) == "S"
    os.kill(pid, signal.SIGKILL)


def test_a_child_that_closes_all_descriptors_is_waited_for() -> None:
    code = "import os, time; os.closerange(0, 256); time.sleep(0.3); os._exit(5)"
    assert finished(*python(code)).returncode == 5


def test_as_the_first_process_of_a_container_it_reaps_orphans(tmp_path: Path) -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("namespaces may not be made here")
    # the orphan ends while the child still runs, and must not stay a zombie of the first process
    script = "(sleep 0.1 & echo $! > orphan) ; sleep 0.6; test -e /proc/$(cat orphan) && exit 1; "
    for end, code in (("exit 8", 8), ("kill -9 $$", 137)):
        shell = ["sh", "-c", script + end]
        done = subprocess.run([*unshare, *SUPERVISED, *shell], cwd=tmp_path, timeout=100)
        assert done.returncode == code
