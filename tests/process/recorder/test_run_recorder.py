"""The recorder with real processes: what agents send is written, whatever is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ramledger.agent.launch_environment import environment_with_agent
from ramledger.events import (
    ExpectationEvent,
    FunctionGrowthEvent,
    GenerationEvent,
    Header,
    OutsideSnapshotEvent,
    PhaseEvent,
    PressureEvent,
    ProcessEvent,
    ReleaseProbeEvent,
    RunEndEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.ledger import Limit
from ramledger.recorder.limit_guard import LimitGuard
from ramledger.recorder.run_recorder import RunRecorder
from ramledger.recording import Recording, RecordingWriter
from ramledger.units import MIB
from tests.support.places import PROGRAMS
from tests.support.waiting import wait_until


def record(
    tmp_path: Path, code: str, *, guard: LimitGuard | None = None, **settings: Any
) -> Recording:
    """Run a program under a recorder of our own and read what it wrote."""
    script = tmp_path / "train.py"
    script.write_text(code)
    path = str(tmp_path / "run.ledger.jsonl")
    recorder = RunRecorder(RecordingWriter(path, Header(command=("train.py",))), guard=guard)
    environment = environment_with_agent(os.environ, {"recorder": recorder.socket_path, **settings})
    process = subprocess.Popen([sys.executable, str(script)], env=environment)
    recorder.start(process.pid)
    code_or_signal = process.wait()
    recorder.finish(max(code_or_signal, 0), max(-code_or_signal, 0) or None)
    assert not os.path.exists(recorder.socket_path)
    return Recording.read(path)


EXPLICIT = """
import time, numpy as np, ramledger
ledger = ramledger.record()
class Env:
    pass
ledger.expect(Env, 1)
envs, kept = [Env()], []
def main():
    for generation in range(4):
        with ledger.phase("evaluate", generation=generation):
            kept.append(np.ones(4 << 20, np.uint8)); time.sleep(0.3)
        with ledger.phase("train"):
            time.sleep(0.4)
        if generation == 1:
            envs.append(Env())
main()
"""


def test_explicit_phases_and_expectations(tmp_path: Path) -> None:
    recording = record(tmp_path, EXPLICIT, budget=0.5)
    assert recording.is_complete and not recording.notes
    phases = [(e.name, e.generation) for e in recording.of_type(PhaseEvent)]
    assert phases == [(name, n) for n in range(4) for name in ("evaluate", "train")]
    grown = [e.growth_bytes for e in recording.of_type(PhaseEvent) if e.name == "evaluate"]
    assert all(abs((growth or 0) - 4 * MIB) < 2 * MIB for growth in grown[1:])
    [violation] = recording.of_type(ExpectationEvent)
    assert (violation.type, violation.expected, violation.found) == ("Env", 1, 2)
    assert violation.paths == ("train.py:envs[*]", "train.py:envs[*]")
    snapshots = list(recording.of_type(SnapshotEvent))
    assert len(snapshots) >= 3
    for snapshot in snapshots:
        assert snapshot.statement.unexplained_bytes >= 0
    assert list(recording.of_type(ReleaseProbeEvent))
    assert list(recording.of_type(SampleEvent))


INFERRED = """
import time, numpy as np
history = []
def evaluate():
    for _ in range(3):
        history.append(np.ones(1 << 20, np.uint8)); time.sleep(0.1)
def learn():
    time.sleep(0.3)
for epoch in range(8):
    evaluate()
    learn()
"""


def test_a_program_that_says_nothing(tmp_path: Path) -> None:
    recording = record(tmp_path, INFERRED, budget=0.5)
    generations = list(recording.of_type(GenerationEvent))
    assert 3 <= len(generations) <= 8
    assert all(event.origin == "inferred" for event in generations)
    grown: dict[str, int] = {}
    for event in recording.of_type(FunctionGrowthEvent):
        for name, size in event.growth_bytes.items():
            grown[name] = grown.get(name, 0) + size
    assert max(grown, key=lambda name: grown[name]) == "train.py:evaluate"
    snapshots = recording.of_type(SnapshotEvent)
    accounts = {entry.account for e in snapshots for entry in e.statement.entries}
    assert "variables/train.py:history" in accounts


def test_named_phases(tmp_path: Path) -> None:
    recording = record(tmp_path, INFERRED, phases=["evaluate", "learn"])
    names = {event.name for event in recording.of_type(PhaseEvent)}
    assert names == {"evaluate", "learn"}
    assert {event.origin for event in recording.of_type(PhaseEvent)} == {"named"}


FAMILY = """
import multiprocessing as mp, subprocess, sys, time
def child():
    time.sleep(0.8)
if __name__ == "__main__":
    made = [mp.get_context(m).Process(target=child) for m in ("fork", "spawn", "forkserver")]
    [p.start() for p in made]
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.8)"])
    [p.join() for p in made]
"""


def test_every_process_of_the_tree_has_an_agent(tmp_path: Path) -> None:
    recording = record(tmp_path, FAMILY)
    agents = {e.pid: e for e in recording.of_type(ProcessEvent) if e.has_agent}
    # the script, fork, spawn, the fork server and its child, the resource tracker, subprocess
    assert len(agents) >= 6
    assert sum(bool(e.is_worker) for e in agents.values()) >= 3


KILLED = """
import os, time, signal
kept = bytearray(30 << 20)
time.sleep(1.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_training_leaves_a_whole_recording(tmp_path: Path) -> None:
    recording = record(tmp_path, KILLED)
    assert recording.is_complete
    [end] = recording.of_type(RunEndEvent)
    assert end.signal == signal.SIGKILL
    assert (end.peak_bytes or 0) > 30 * MIB


GROWING = """
import time, numpy as np, ramledger
ledger = ramledger.record()
saved = []
@ledger.on_pressure
def save():
    open({marker!r}, "w").write("saved")
kept = []
while True:
    kept.append(np.ones(2 << 20, np.uint8)); time.sleep(0.1)
"""


def test_the_limit_runs_the_callback_and_stops(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    guard = LimitGuard(Limit(150 * MIB, "--limit"), "stop", grace_seconds=5)
    recording = record(tmp_path, GROWING.format(marker=str(marker)), guard=guard)
    assert marker.read_text() == "saved"
    [event] = recording.of_type(PressureEvent)
    assert event.action == "stop"
    [last] = [e for e in recording.of_type(SnapshotEvent) if e.label == "pressure"]
    owned = [entry for entry in last.statement.entries if entry.source == "path"]
    assert owned[0].account == "variables/train.py:kept"
    [end] = recording.of_type(RunEndEvent)
    assert end.signal == signal.SIGTERM
    assert 0 < (end.peak_bytes or 0) < 175 * MIB


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.8, 1.6])
def test_the_training_survives_a_killed_recorder(tmp_path: Path, seconds: float) -> None:
    """Killed at any moment it leaves whole lines only, and the training goes on."""
    marker, out = tmp_path / "done", tmp_path / "run.ledger.jsonl"
    recorder = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "recorder_host.py"), str(out), str(marker)],
        stdout=subprocess.PIPE,
    )
    assert recorder.stdout is not None
    with recorder.stdout:
        assert recorder.stdout.readline() == b"started\n"
    time.sleep(seconds)
    recorder.kill()
    recorder.wait()
    wait_until(lambda: marker.exists() and marker.read_text() == "done")
    if out.exists() and out.stat().st_size:
        recording = Recording.read(str(out))
        assert all("damaged" not in note for note in recording.notes)


ALONE = """
import time
kept = []
for _ in range(8):
    kept.append(bytearray(b"x" * (8 << 20))); time.sleep(0.4)
"""


def test_a_process_without_an_agent_has_statements_from_outside(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ALONE)
    path = str(tmp_path / "run.ledger.jsonl")
    recorder = RunRecorder(RecordingWriter(path, Header(command=("train.py",))))
    with subprocess.Popen([sys.executable, "-I", str(script)]) as process:
        recorder.start(process.pid)
        process.wait()
    recorder.finish(0, None)
    found = [event.statement for event in Recording.read(path).of_type(OutsideSnapshotEvent)]
    first, last = found[0], found[-1]
    assert last.rss_bytes > first.rss_bytes + 16 * MIB
    for statement in (first, last):
        assert statement.entries
        assert statement.unexplained_bytes >= 0


FORKS = """
import os, time, numpy as np
shared = np.ones(40 << 20, np.uint8)
children = []
for number in range(20):
    child = os.fork()
    if not child:
        own = np.ones(2 << 20, np.uint8)
        time.sleep(2.5)
        os._exit(0)
    children.append(child)
time.sleep(1.5)
for child in children:
    os.waitpid(child, 0)
"""


def test_what_many_forks_share_with_their_parent_is_told(tmp_path: Path) -> None:
    recording = record(tmp_path, FORKS)
    others = [
        (e.other_processes.anon_bytes, e.other_inherited_bytes)
        for e in recording.of_type(SampleEvent)
        if e.other_processes
    ]
    anon, inherited = max(others)  # of the five that are not listed
    assert 4 * 2 * MIB <= anon - inherited <= 5 * 8 * MIB < 5 * 40 * MIB < anon
    forked = [e for e in recording.of_type(ProcessEvent) if e.inherited_bytes]
    assert len(forked) >= 20
