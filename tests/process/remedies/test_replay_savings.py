"""What `--apply replay` promises is what it saves: full buffers, in real processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import PROGRAMS
from tests.support.recorded_programs import COMMAND

pytest.importorskip("stable_baselines3")


def filled(folder: Path, kind: str, count: int, *options: str) -> tuple[Any, Any]:
    """What the program says of itself, and which remedies were applied."""
    words = [COMMAND, "run", "--json", "--quiet", *options, "--force"]
    words += ["--out", str(folder / "run.ledger.jsonl"), "--"]
    words += [sys.executable, str(PROGRAMS / "full_replay.py"), kind, str(count)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    line = next(line for line in done.stderr.splitlines() if line.startswith("RESULT"))
    return json.loads(line.partition(" ")[2]), json.loads(done.stdout)["remedies"]


@pytest.mark.parametrize(("kind", "count"), [("vector", 150_000), ("stack", 12_000)])
def test_the_saving_is_as_promised(tmp_path: Path, kind: str, count: int) -> None:
    without, _ = filled(tmp_path, kind, count)
    found, remedies = filled(tmp_path, kind, count, "--apply", "replay")
    assert (without["kind"], found["kind"]) == ("ReplayBuffer", "AppliedReplayBuffer")
    (applied,) = remedies["applied"]
    saved = without["rss_bytes"] - found["rss_bytes"]
    assert applied["saves_bytes"] == pytest.approx(saved, rel=0.05)


@pytest.mark.parametrize(
    ("apply", "most_bytes"),
    [("replay", 7200), ("replay=lz4", 400)],  # 56,448 are usual
)
def test_bytes_a_transition_of_pong(tmp_path: Path, apply: str, most_bytes: int) -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("lz4")
    count = 60_000
    found, _ = filled(tmp_path, "pong", count, "--apply", apply)
    assert found["kind"] == "AppliedReplayBuffer"
    assert 0 < found["added_bytes"] / count <= most_bytes
