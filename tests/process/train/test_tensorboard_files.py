"""Event files are what TensorBoard reads."""

import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.train.tensorboard_files import Scalars

READER = """\
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1])
found.Reload()
tags = found.Tags()["scalars"]
print(json.dumps({tag: [[e.step, e.value] for e in found.Scalars(tag)] for tag in tags}))
"""


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    scalars = Scalars(tmp_path)
    for step in (0, 1, 200):
        scalars.add(step, {"return/best": step / 2, "loss": -1.0})
    done = subprocess.run(
        [sys.executable, "-c", READER, tmp_path], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert '"return/best": [[0, 0.0], [1, 0.5], [200, 100.0]]' in done.stdout
    assert '"loss": [[0, -1.0], [1, -1.0], [200, -1.0]]' in done.stdout
