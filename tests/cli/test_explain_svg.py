"""`ramledger explain --svg`: the statement as a picture that needs nothing from elsewhere."""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ramledger.cli.main import main


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
