"""A supervised command at a terminal: Ctrl-C, Ctrl-Z and fg, the terminal itself, its end."""

import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

from tests.support.places import PROGRAMS
from tests.support.terminals import Terminal
from tests.support.waiting import wait_until

SUPERVISED = [sys.executable, str(PROGRAMS / "run_supervised.py")]
SIGNALS = [sys.executable, "-I", str(PROGRAMS / "run_signals.py")]


def state_of(pid: int) -> str:
    """One letter, as ps(1) prints it; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def shell() -> Terminal:
    terminal = Terminal(["bash", "--norc", "--noediting", "-i"], environment={"PS1": "$ "})
    terminal.expect("$ ")
    return terminal


def child_of(terminal: Terminal) -> int:
    """The pid that the supervisor prints; its child may have printed something before."""
    wait_until(lambda: re.search(r"child \d+\s", terminal.read(0.02)))
    return int(terminal.shown.rpartition("child ")[2].split()[0])


def test_ctrl_c_reaches_the_child_once_and_we_wait_for_it() -> None:
    with shell() as terminal:
        terminal.type(" ".join([*SUPERVISED, *SIGNALS]) + "\n")
        terminal.expect("ready")
        terminal.type("\x03")
        terminal.expect("got SIGINT")
        terminal.type("\x1c")
        assert "got" not in terminal.expect("got SIGQUIT")
        pid = child_of(terminal)
        os.kill(pid, signal.SIGTERM)
        terminal.expect("got SIGTERM")
        terminal.type("echo code $?\n")
        terminal.expect("code 7")


def test_ctrl_c_on_a_child_without_a_handler_is_the_death_a_shell_knows() -> None:
    with shell() as terminal:
        terminal.type(" ".join([*SUPERVISED, "sleep", "30"]) + "\n")
        terminal.expect("child ")
        time.sleep(0.2)
        terminal.type("\x03")
        terminal.expect("$ ")
        terminal.type("echo code $?\n")
        terminal.expect("code 130")


def test_ctrl_z_stops_both_and_fg_continues_both() -> None:
    with shell() as terminal:
        terminal.type(" ".join([*SUPERVISED, *SIGNALS]) + "\n")
        terminal.expect("ready")
        pid = child_of(terminal)
        terminal.type("\x1a")
        terminal.expect("stopping")
        terminal.expect("Stopped")
        supervisor = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert (state_of(pid), state_of(supervisor)) == ("T", "T")
        terminal.type("fg\n")
        terminal.expect("got SIGCONT")
        wait_until(lambda: state_of(supervisor) == "S")
        terminal.type("\x03")
        terminal.expect("got SIGINT")
        os.kill(supervisor, signal.SIGTERM)
        terminal.expect("got SIGTERM")
        terminal.type("echo code $?\n")
        terminal.expect("code 7")


def test_a_child_that_ignores_ctrl_z_is_not_left_alone() -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTSTP, signal.SIG_IGN)\n"
        "print('re' + 'ady', flush=True); time.sleep(0.6); print('do' + 'ne', flush=True)\n"
    )
    with shell() as terminal:
        terminal.type(f"{' '.join(SUPERVISED)} {sys.executable} -c {shlex.quote(code)}\n")
        terminal.expect("ready")
        terminal.type("\x1a")
        assert "Stopped" not in terminal.expect("done")


def test_the_terminal_of_the_child_is_ours() -> None:
    code = (
        "import os, sys\n"
        "print([os.ttyname(fd) for fd in range(3)] == [os.ttyname(0)] * 3, os.ttyname(0),\n"
        "      os.tcgetpgrp(0) == os.getpgrp(), tuple(os.get_terminal_size()), input())\n"
    )
    with Terminal([*SUPERVISED, sys.executable, "-I", "-c", code], rows=33, columns=77) as terminal:
        terminal.expect("child")
        before = terminal.attributes()
        terminal.type("typed\n")
        assert terminal.wait() == 0
        assert terminal.attributes() == before
        name = os.ptsname(terminal.master) if hasattr(os, "ptsname") else "/dev/pts/"
        assert f"True {name}" in terminal.shown
        assert "True (77, 33) typed" in terminal.shown


def test_a_terminal_that_goes_away_ends_the_child() -> None:
    with Terminal([*SUPERVISED, *SIGNALS, "quick"]) as terminal:
        terminal.expect("ready")
        pid = child_of(terminal)
        os.close(terminal.master)
        try:
            wait_until(lambda: state_of(pid) in ("", "Z"))
        finally:
            terminal.master = os.open(os.devnull, os.O_RDONLY)
