"""`ramledger explain --svg`: the statement as a picture that needs nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ramledger.cli.main import main

COMMAND = Path(sys.executable).with_name("ramledger")


def test_the_picture_is_svg_and_loads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "statement.svg"
    assert main(["explain", str(os.getpid()), "--svg", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    words = " ".join(ElementTree.fromstring(text).itertext()).replace("\N{NO-BREAK SPACE}", " ")
    assert f"ramledger explain {os.getpid()}" in words
    assert "unexplained" in words
    assert not re.search(r"url\(['\"]?http|@font-face|href=", text)
    # the text is printed as always
    assert "unexplained" in capsys.readouterr().out
    # and a picture of ours is renewed
    assert main(["explain", str(os.getpid()), "--svg", str(out)]) == 0


def test_what_is_no_picture_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "notes.txt"
    mine.write_text("mine")
    assert main(["explain", str(os.getpid()), "--svg", str(mine)]) == 1
    assert mine.read_text() == "mine"
    pids = [str(os.getpid()), str(os.getppid())]
    assert main(["explain", *pids, "--svg", str(tmp_path / "two.svg")]) == 1
    assert "hint:" in capsys.readouterr().err


def test_a_picture_that_finds_no_room_leaves_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "statement.svg"
    assert main(["explain", str(os.getpid()), "--svg", str(out)]) == 0
    before = out.read_bytes()
    # files of this shell may have 512 bytes
    command = f"ulimit -f 1; exec '{COMMAND}' explain {os.getpid()} --svg '{out}'"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert done.stderr.startswith(f"ramledger: cannot write {out}: ") and "hint: " in done.stderr
    assert out.read_bytes() == before
    assert os.listdir(tmp_path) == ["statement.svg"]


def test_a_pipe_is_no_picture_and_nobody_waits_for_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.svg"
    os.mkfifo(pipe)
    command = [str(COMMAND), "explain", str(os.getpid()), "--svg", str(pipe)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert "no picture" in done.stderr
