"""Pinned lines on real terminals: what is above them scrolls, and the screen is given back."""

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ramledger.report.terminal.pinned_lines import PinnedLines, can_pin
from tests.support.places import PROGRAMS
from tests.support.terminals import Terminal

PROGRAM = [sys.executable, str(PROGRAMS / "run_pinned.py")]

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="the screen is tmux's")


class Screen:
    """A program in a terminal that tmux draws."""

    def __init__(self, socket: str) -> None:
        self._tmux = ["tmux", "-L", socket]

    def lines(self, history: bool = False) -> list[str]:
        command = [*self._tmux, "capture-pane", "-p", *(["-S", "-200"] if history else [])]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout.splitlines()

    def until(self, is_there: Callable[[list[str]], object]) -> list[str]:
        deadline = time.monotonic() + 90
        while not is_there(lines := self.lines()):
            assert time.monotonic() < deadline, "\n".join(lines)
            time.sleep(0.05)
        return lines

    def resize(self, columns: int, rows: int) -> None:
        size = ["-x", str(columns), "-y", str(rows)]
        subprocess.run([*self._tmux, "resize-window", *size], check=True)


@contextmanager
def screen(*command: str, columns: int = 80, rows: int = 24) -> Iterator[Screen]:
    name = f"ramledger-test-{uuid.uuid4().hex[:8]}"
    tmux = ["tmux", "-L", name, "-f", os.devnull]
    size = ["-x", str(columns), "-y", str(rows)]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
    subprocess.run([*tmux, "new-session", "-d", *size, *command], check=True, env=environment)
    try:
        yield Screen(name)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True)


@needs_tmux
def test_output_scrolls_above_and_goes_into_the_history() -> None:
    with screen(*PROGRAM, "leave") as terminal:
        lines = terminal.until(lambda lines: "goes on 59" in " ".join(lines))
        history = terminal.lines(history=True)
    assert lines[-3:] == ["pinned 59.0", "pinned 59.1", "pinned 59.2"]
    assert lines[:20] == [f"line {n} goes on {n}" for n in range(40, 60)]
    assert [x for x in history if x.startswith("line")] == [
        f"line {n} goes on {n}" for n in range(60)
    ]


@needs_tmux
def test_a_line_in_progress_keeps_its_place() -> None:
    with screen(*PROGRAM, "partial") as terminal:
        lines = terminal.until(lambda lines: "pinned 63.0" in lines)
    assert lines[20] == "progress 99%"
    assert lines[19] == "line 59 goes on 59"


@needs_tmux
def test_more_lines_push_the_output_up() -> None:
    with screen(*PROGRAM, "grow") as terminal:
        lines = terminal.until(lambda lines: "after growth" in lines)
    assert lines[-6:] == [f"pinned 61.{n}" for n in range(6)]
    assert lines[16:18] == ["after growth", ""]
    assert lines[15] == "line 59 goes on 59"


@needs_tmux
def test_closing_gives_the_whole_screen_back() -> None:
    with screen(*PROGRAM, "close") as terminal:
        lines = terminal.until(lambda lines: "closed" in lines)
    assert not [line for line in lines if line.startswith("pinned")]
    assert lines[19:21] == ["line 59 goes on 59", "closed"]


@needs_tmux
@pytest.mark.parametrize("size", [(80, 30), (80, 16), (60, 24), (120, 40)])
def test_a_resized_terminal_is_drawn_anew(size: tuple[int, int]) -> None:
    with screen(*PROGRAM, "wait") as terminal:
        terminal.until(lambda lines: "waiting" in lines)
        terminal.resize(*size)
        time.sleep(0.5)
        lines = terminal.lines()
    assert len(lines) == size[1]
    assert [line[:8] for line in lines[-3:]] == ["pinned 1"] * 3
    assert sum(line.startswith("pinned") for line in lines) == 3
    assert "waiting" in lines
    assert "line 59 goes on 59" in lines


@needs_tmux
def test_a_program_that_reads_keys_is_left_alone() -> None:
    with screen(*PROGRAM, "keys") as terminal:
        lines = terminal.until(lambda lines: any("drawn while" in line for line in lines))
    assert "drawn while keys are read: False" in lines
    assert "pinned 64.0" not in lines


def test_a_frame_sets_the_region_and_puts_the_cursor_back() -> None:
    with Terminal([*PROGRAM, "leave"], rows=24, columns=80) as terminal:
        terminal.wait()
    frames = terminal.shown.split("\x1b7")[1:]
    assert len(frames) == 60
    assert all("\x1b8" in frame for frame in frames)
    frame = frames[30].split("\x1b8")[0]
    assert frame.startswith("\x1b[1;21r")  # the region above three lines
    assert "line" not in frame


def test_what_cannot_be_pinned_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    read, write = os.pipe()
    assert not can_pin(write)
    assert not PinnedLines(write).draw(["x"])
    assert PinnedLines(write).room() == (0, 0)
    PinnedLines(write).close()
    os.close(write)
    assert os.read(read, 10) == b""
    os.close(read)
    for term, rows, columns in (("dumb", 24, 80), ("xterm", 8, 80), ("xterm", 24, 30)):
        with Terminal(
            [*PROGRAM, "close"], rows=rows, columns=columns, environment={"TERM": term}
        ) as terminal:
            assert terminal.wait() == 1
        assert "cannot be pinned to" in terminal.shown
