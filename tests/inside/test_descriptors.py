"""Programs that close and reuse our descriptors keep what is theirs, and we go on with our own."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ramledger.account.enter import ask_inside
from ramledger.account.launch import environment_with_agent
from ramledger.account.run_recorder import RunRecorder
from ramledger.errors import RamledgerError
from ramledger.recording import Recording, RecordingWriter

PROGRAMS = Path(__file__).parent.parent / "programs"
KINDS = ("file", "statm", "pair", "listener", "eventfd", "epoll")


def run_recorded(folder: Path, *command: str, ends: bool = False) -> tuple[list[str], Recording]:
    """What a program under a recorder says at its end, asked now and then, and the recording."""
    path = str(folder / "run.ledger.jsonl")
    recorder = RunRecorder(RecordingWriter(path, {"command": [*command]}))
    environment = environment_with_agent(
        os.environ, {"recorder": recorder.socket_path, "budget": 0.5}
    )
    with subprocess.Popen(
        [sys.executable, *command], env=environment, cwd=folder, stdout=-1, text=True
    ) as process:
        recorder.start(process.pid)
        if ends:
            time.sleep(1.8)
            recorder.finish(None, None)
        while process.poll() is None:
            with suppress(RamledgerError):
                ask_inside(process.pid, {"verb": "ping"}, way="agent", timeout_seconds=5)
            time.sleep(0.1)
        assert process.stdout is not None
        said: list[str] = json.loads(process.stdout.read())
    if not ends:
        recorder.finish(process.returncode, None)
    assert process.returncode == 0
    return said, Recording.read(path)


@pytest.mark.parametrize("how", ["same", "daemon", "thread"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_program_opens_at_our_numbers_is_its_own(
    kind: str, how: str, tmp_path: Path
) -> None:
    program = str(PROGRAMS / "closes_descriptors.py")
    said, _ = run_recorded(tmp_path, program, kind, how)
    assert said == []
