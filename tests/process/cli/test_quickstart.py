"""The quickstart as a new user follows it: each command as printed, in order, in a new folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

BINARIES = Path(sys.executable).parent
PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
FENCE = re.compile(r"(?:^<!-- (not run): [^\n]+ -->\n)?^```(console|text)\n(.*?)^```$", re.M | re.S)
EXIT_CODES = {"plan": 3}  # it does not fit, and that is the answer
# what depends on the machine, the moment and the width of the terminal
NUMBERS = re.compile(r"\d[\d.,]*")


def commands_and_outputs() -> list[tuple[str, str]]:
    """Each command, with the text that the page shows for it."""
    found: list[tuple[str, str]] = []
    for skipped, language, code in FENCE.findall(PAGE):
        if language == "console" and not skipped:
            found += [(line.removeprefix("$ "), "") for line in code.splitlines()]
        elif language == "text":
            found[-1] = (found[-1][0], code)
    return found


@pytest.mark.timeout(600)
def test_it_works_as_printed(tmp_path: Path) -> None:
    folder = tmp_path
    environment = os.environ | {"PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}"}
    environment["COLUMNS"] = "88"
    steps = commands_and_outputs()
    assert len(steps) >= 8
    for command, shown in steps:
        if command.startswith("cd "):
            folder = folder / command.removeprefix("cd ")
            continue
        command = command.replace("47068", str(os.getpid()))
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=300,
        )  # fmt: skip
        verb = command.split()[1]
        assert done.returncode == EXIT_CODES.get(verb, 0), (command, done.stderr)
        printed = without_numbers(done.stdout + done.stderr)
        missing = [line for line in shown.splitlines() if without_numbers(line) not in printed]
        assert [line for line in missing if line.strip("… ")] == [], (command, done.stderr)
    # file names as the page has them
    assert (folder / "before.html").exists()
    assert {"before.ledger.jsonl", "after.ledger.jsonl"} <= {p.name for p in folder.iterdir()}


def without_numbers(text: str) -> str:
    return NUMBERS.sub("#", text)


def test_files_that_are_there_are_not_overwritten(tmp_path: Path) -> None:
    command = [str(BINARIES / "ramledger"), "quickstart", "here"]
    first = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    (tmp_path / "here" / "train.py").write_text("mine")
    second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert second.returncode == 1
    assert "here/train.py exists already" in second.stderr
    assert (tmp_path / "here" / "train.py").read_text() == "mine"
    third = subprocess.run([*command, "--force"], cwd=tmp_path, capture_output=True, text=True)
    assert third.returncode == 0
    assert (tmp_path / "here" / "train.py").read_text() != "mine"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [BINARIES / "ramledger", "quickstart", "file/below"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "cannot make file/below" in done.stderr
