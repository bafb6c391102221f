"""What the advice promises is what the remedy saves: each program runs as it is, then changed.

Truth is the kernel's RSS of the two runs, within 5 %; for workers PSS over the tree, within 20 %.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.held_program import HeldProgram

COMMAND = Path(sys.executable).with_name("ramledger")


def explain(pid: int) -> dict[str, Any]:
    done = subprocess.run(
        [COMMAND, "explain", str(pid), "--tree", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def used_bytes(pid: int) -> int:
    """PSS of a process and all below it, by the kernel's own sums."""
    own = rollup(pid, "Pss")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(used_bytes(int(child)) for child in children)


def rollup(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


@pytest.mark.parametrize(
    ("case", "title"),
    [
        ("freed", "give freed memory back"),
        ("float64", "float32 instead of float64"),
        ("view", "copy small pieces of large arrays"),
        ("next_observations", "store each observation once"),
        ("own_windows", "store each observation of Windows.memory once"),
        ("own_rows", "store each observation of Rows once"),
        ("gradients", "drop gradients between updates"),
    ],
)
def test_the_saving_is_as_promised(case: str, title: str) -> None:
    with HeldProgram("reducible", "bare", case) as program:
        as_it_is = rollup(program.pid, "Rss")
        document = explain(program.pid)
    with HeldProgram("reducible", "bare", case, "--changed") as program:
        changed = rollup(program.pid, "Rss")
        after = explain(program.pid)
    promised = next(a["saves_bytes"] for a in document["advice"] if a["title"] == title)
    assert promised == pytest.approx(as_it_is - changed, rel=0.05)
    # who has followed the advice is not given it again
    assert title not in [advice["title"] for advice in after["advice"]]


@pytest.mark.serial  # what others map of the same libraries counts in PSS
def test_workers_that_share_their_imports() -> None:
    title = "let workers share their imports"
    with HeldProgram("reducible", "alone", "workers") as program:
        as_it_is = used_bytes(program.pid)
        document = explain(program.pid)
    with HeldProgram("reducible", "alone", "workers", "--changed") as program:
        changed = used_bytes(program.pid)
        after = explain(program.pid)
    promised = next(a["saves_bytes"] for a in document["advice"] if a["title"] == title)
    assert promised == pytest.approx(as_it_is - changed, rel=0.2)
    assert title not in [advice["title"] for advice in after["advice"]]
