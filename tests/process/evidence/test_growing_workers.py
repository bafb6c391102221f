"""Workers that grow are looked into: a buffer that fills in them fills, a leak has its owner."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ramledger.events import ProcessEvent, SnapshotEvent
from ramledger.recording import Recording
from tests.support.places import PROGRAMS
from tests.support.recorded_programs import COMMAND

# two workers, 24 arrays of 128 KiB each
BYTES_PER_ITERATION = 2 * 24 * 128 * 1024


def recorded(folder: Path, method: str, what: str) -> Path:
    out = folder / "run.jsonl"
    program = PROGRAMS / "growing_workers.py"
    command = [COMMAND, "run", "--quiet", "--out", str(out), "--", sys.executable, str(program)]
    subprocess.run([*command, method, what], check=True, capture_output=True, timeout=300)
    return out


def diagnosed(out: Path) -> dict[str, Any]:
    done = subprocess.run([COMMAND, "diagnose", "--json", out], capture_output=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def pids_with_snapshots(out: Path) -> tuple[set[int], set[int]]:
    found = Recording.read(str(out))
    workers = {event.pid for event in found.of_type(ProcessEvent) if event.is_worker}
    return workers, {event.pid for event in found.of_type(SnapshotEvent)}


def test_a_leak_in_forked_workers_has_its_owner_and_its_line(tmp_path: Path) -> None:
    out = recorded(tmp_path, "fork", "endless")
    workers, looked_into = pids_with_snapshots(out)
    assert workers <= looked_into
    document = diagnosed(out)
    leak = document["findings"][0]
    assert document["verdict"] == "leak"
    assert leak["culprit"]["path"] == "Actor.trace"
    assert "self.trace.append(" in leak["code"]["stored_at"][0]
    assert leak["bytes_per_generation"] == pytest.approx(BYTES_PER_ITERATION, rel=0.2)
    assert {one["pid"] for one in document["outside"]} == workers


def test_a_buffer_that_fills_in_workers_is_no_leak(tmp_path: Path) -> None:
    document = diagnosed(recorded(tmp_path, "fork", "bounded"))
    assert document["verdict"] == "healthy"
    filling = [one for one in document["findings"] if one["kind"] == "filling"]
    assert "Actor.trace" in filling[0]["summary"]
    assert "worker" in filling[0]["summary"]
