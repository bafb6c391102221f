"""Snapshots in forked workers: what they share with their parent stays shared."""

import json
import os
import subprocess
import sys

import pytest

from ramledger.interpreter.tracked_objects import is_compiled
from tests.support.places import PROGRAMS


@pytest.mark.skipif(not is_compiled(), reason="without the part in C all objects are held")
@pytest.mark.parametrize("kind", ["light", "census"])
def test_snapshots_copy_few_pages(kind: str) -> None:
    """Twenty snapshots in each of eight workers, against one list of all objects."""
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "forked_workers.py"), kind],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found["copied"]) == 8
    assert max(found["copied"]) < found["copied_by_references"] / 2
