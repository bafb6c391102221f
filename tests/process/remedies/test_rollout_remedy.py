"""`--apply rollout`: the same batches and parameters, bit for bit, from smaller rollouts."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.remedies.test_replay_remedy import plainly, remedied, results
from tests.support.places import PROGRAMS
from tests.support.recorded_programs import COMMAND

pytest.importorskip("stable_baselines3")
ROLLOUTS = [sys.executable, str(PROGRAMS / "rollouts.py")]
LARGE = [sys.executable, str(PROGRAMS / "large_rollout.py")]
FRAMES = "each frame is stored once, stacks of 3"
BYTES = "floats that are bytes are stored as bytes"
NO_COPY = "observations are not copied for updates"
AN_ARRAY = "observations are kept as an array: __main__, line "


def run(folder: Path, words: list[str], *options: str) -> tuple[str, dict[str, Any]]:
    """What the program printed, and the document of the run."""
    command = [COMMAND, "run", "--json", "--quiet", *options]
    command += ["--out", str(folder / "run.ledger.jsonl"), "--force", "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return done.stderr, document


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ppo-stack", "each frame is stored once, stacks of 4"),
        ("ppo-plain", NO_COPY),
        ("ppo-dict", NO_COPY),
    ],
)
def test_the_same_parameters(tmp_path: Path, kind: str, said: str) -> None:
    numbers, _, size = plainly(kind)
    found, remedies = remedied(tmp_path, kind, apply="rollout")
    assert (found[0], found[2]) == (numbers, size)
    assert said in remedies["applied"][0]["text"]


@pytest.mark.parametrize(
    ("kind", "applied", "left"),
    [
        ("recurrent", [FRAMES, NO_COPY], ""),
        ("recurrent-dict", [FRAMES, NO_COPY], ""),
        ("maskable", [FRAMES, NO_COPY], ""),
        ("maskable-dict", [FRAMES, NO_COPY], ""),
        ("a2c", [FRAMES, NO_COPY], ""),
        ("one", [FRAMES], ""),
        ("whole", [BYTES, NO_COPY], ""),
        ("divided", [BYTES, NO_COPY], ""),
        ("inexact", [FRAMES, NO_COPY], ""),
        ("loud", [FRAMES, NO_COPY], ""),
        ("saved", [FRAMES, NO_COPY], ""),
        ("own-add", [NO_COPY], AN_ARRAY),
        ("reading", [NO_COPY], AN_ARRAY),
        ("writing", [NO_COPY], AN_ARRAY),
        ("tensor", [NO_COPY], AN_ARRAY),
        ("copyto", [NO_COPY], AN_ARRAY),
        ("copied", [NO_COPY], AN_ARRAY),
    ],
)
def test_every_batch_is_the_same(tmp_path: Path, kind: str, applied: list[str], left: str) -> None:
    if kind.startswith(("recurrent", "maskable")):
        pytest.importorskip("sb3_contrib")
    plain = subprocess.run([*ROLLOUTS, kind], capture_output=True, text=True, check=True)
    printed, document = run(tmp_path, [*ROLLOUTS, kind], "--apply", "rollout")
    # parameters, all batches, and what a callback saw
    assert results(printed, kind) == results(plain.stdout, kind)
    remedies = document["remedies"]
    said = [one["text"] for one in remedies["applied"]]
    assert len(said) == len(applied)
    assert all(part in text for part, text in zip(applied, said, strict=True))
    assert (BYTES in said[0]) == (BYTES in applied)
    kept = [one["text"] for one in remedies["left"]]
    assert len(kept) == bool(left)
    assert not left or kept[0].startswith(left)


@pytest.mark.parametrize("kind", ["stack", "floats", "dict"])
def test_as_much_is_saved_as_is_promised(tmp_path: Path, kind: str) -> None:
    _, before = run(tmp_path, [*LARGE, kind])
    _, after = run(tmp_path, [*LARGE, kind], "--apply", "rollout")
    # the kernel's own peaks: a copy is shorter than the time between two samples
    peaks = [max(one["peak_bytes"] for one in each["phases"]) for each in (before, after)]
    promised = sum(one["saves_bytes"] for one in after["remedies"]["applied"])
    assert promised == pytest.approx(peaks[0] - peaks[1], rel=0.05)
