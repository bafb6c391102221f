"""Signals that are ignored where ramledger starts: `nohup`, `&` in a shell without job control."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ramledger.recording import Recording
from tests.support.places import ROOT

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TELLS = (
    "import os, signal\n"
    "print(*(signal.getsignal(n) == signal.SIG_IGN for n in (1, 2, 3, 15)), flush=True)\n"
    "for number in (1, 2, 3, 15):\n"
    "    os.kill(os.getppid(), number)\n"
    "import time; time.sleep(0.5); print('alive', flush=True)\n"
)


def ignoring(*numbers: int) -> Callable[[], None]:
    def ignore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    return ignore


def test_a_command_ignores_what_ramledger_was_started_to_ignore(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ramledger", "run", "--quiet", "--out", "x.ledger.jsonl", "--",
         sys.executable, "-c", TELLS],
        preexec_fn=ignoring(*IGNORED), cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["True True True True", "alive"]
    assert done.returncode == 0
    assert Recording.read(str(tmp_path / "x.ledger.jsonl")).is_complete


TEST = """
import os, signal, subprocess, sys
def test_a_child_has_what_a_terminal_gives():
    code = "import signal; print(*(signal.getsignal(n) == signal.SIG_IGN for n in (1, 3, 15)))"
    code += "; print(signal.getsignal(2) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False", "False", "True"]
    told, telling = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(telling, b"!")
        signal.sigtimedwait([], 60)
        os._exit(0)
    os.read(told, 1)
    os.kill(pid, signal.SIGHUP)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGHUP
"""


@pytest.mark.parametrize("is_ignored", [True, False])
def test_the_tests_themselves_run_so(is_ignored: bool, tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(TEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120,
        preexec_fn=ignoring(*IGNORED) if is_ignored else None,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
