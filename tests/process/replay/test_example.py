"""The example runs, and goes on where it was."""

import subprocess
import sys
from pathlib import Path

from tests.support.places import ROOT

EXAMPLE = ROOT / "examples" / "replay_loop.py"


def test_the_example_resumes(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE), str(tmp_path / "saves"), "1200"]
    first = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (first.returncode, first.stderr) == (0, "")
    second = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout.startswith("resumed with ")
    last = (run.stdout.splitlines()[-1].split()[0] for run in (first, second))
    before, after = (int(number.replace(",", "")) for number in last)
    assert after > 1.9 * before
