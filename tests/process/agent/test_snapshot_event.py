"""A snapshot that fails is in the recording with its reason, and the summary says so."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import time
import ramledger.agent.snapshot_event as deep

def fails(*_, **__):
    raise RuntimeError("\\x1b[31mfor a test")

deep.read_process_objects = fails
for generation in range(8):
    kept = [bytes(100) for _ in range(20_000)]
    time.sleep(0.3)
print("done")
"""


def test_it_is_an_event_and_a_line_of_the_summary(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    out = tmp_path / "run.ledger.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "ramledger", "run", "--out", str(out), "--", sys.executable, script],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert done.stdout == "done\n"
    events = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    failed = [event for event in events if event["event"] == "snapshot-failed"]
    assert failed
    assert "RuntimeError" in failed[0]["reason"]
    assert not [event for event in events if event["event"] == "snapshot"]
    assert "a snapshot failed: the objects of this process could not be read" in done.stderr
    assert "\x1b[31mfor" not in done.stderr
