"""`--apply replay`: the same parameters, bit for bit, from a smaller buffer."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import PROGRAMS
from tests.support.recorded_programs import COMMAND

pytest.importorskip("stable_baselines3")
PROGRAM = [sys.executable, str(PROGRAMS / "remedied.py")]


def result(text: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith("RESULT")).split()[1:]


def plainly(*arguments: str) -> list[str]:
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=True)
    return result(done.stdout)


def remedied(
    folder: Path, *arguments: str, apply: str = "replay"
) -> tuple[list[str], dict[str, Any]]:
    words = [COMMAND, "run", "--json", "--quiet", "--apply", apply]
    words += ["--out", str(folder / "run.ledger.jsonl"), "--force", "--", *PROGRAM, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return result(done.stderr), document["remedies"]


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("plain", "AppliedReplayBuffer", "each observation is stored once"),
        ("two", "AppliedReplayBuffer", "each observation is stored once"),
        ("optimized", "AppliedReplayBuffer", "each observation is stored once"),
        ("dict", "AppliedDictReplayBuffer", "each observation is stored once"),
        ("n-step", "AppliedNStepReplayBuffer", "each observation is stored once"),
        ("pixels", "AppliedReplayBuffer", "each frame is stored once, stacks of 4"),
    ],
)
def test_the_same_parameters(tmp_path: Path, kind: str, name: str, said: str) -> None:
    numbers, usual, size = plainly(kind)
    found, remedies = remedied(tmp_path, kind)
    assert found == [numbers, name, size]
    assert usual == name.removeprefix("Applied")
    (applied,) = remedies["applied"]
    assert said in applied["text"]


def test_compressed_frames_are_the_same_frames(tmp_path: Path) -> None:
    pytest.importorskip("lz4")
    numbers, _, size = plainly("pixels")
    found, remedies = remedied(tmp_path, "pixels", apply="replay=lz4")
    assert found == [numbers, "AppliedReplayBuffer", size]
    assert "compressed with lz4" in remedies["applied"][0]["text"]


def test_a_class_of_the_users_own_stays(tmp_path: Path) -> None:
    found, remedies = remedied(tmp_path, "subclass")
    assert found == plainly("subclass")
    assert found[1] == "OwnBuffer"
    assert remedies["applied"] == []
    assert "OwnBuffer" in remedies["left"][0]["text"]


def test_buffers_are_saved_and_loaded_with_and_without(tmp_path: Path) -> None:
    theirs, ours = str(tmp_path / "theirs.pkl"), str(tmp_path / "ours.pkl")
    plainly("save", theirs)
    remedied(tmp_path, "save", ours)
    expected = plainly("load", theirs)
    assert plainly("load", ours)[0] == expected[0]
    assert remedied(tmp_path, "load", theirs)[0][0] == expected[0]
    assert remedied(tmp_path, "load", ours)[0][0] == expected[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "there is no remedy 'nothing'"),
        ("replay=zip", "replay has no option 'zip'"),
        ("", "names no remedy"),
    ],
)
def test_what_does_not_exist_is_said(text: str, said: str) -> None:
    words = [COMMAND, "run", "--apply", text, "--", *PROGRAM, "plain"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stderr
