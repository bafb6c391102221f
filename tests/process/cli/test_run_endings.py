"""Real runs that die: by the kernel, by a signal, at their limit, by themselves."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).with_name("ramledger")
MIB = 1 << 20
LIMIT = 160 * MIB
MEMORY_GROUPS = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")  # version 1, version 2
LIMIT_FILES = ("memory.limit_in_bytes", "memory.max")

STEADY = """
import os, signal, sys, time
import ramledger
ledger = ramledger.record()
held = []
for generation in range(12):
    with ledger.phase("train", generation=generation):
        time.sleep(0.1)
time.sleep(0.7)
"""
# nobody looks into it any more while it takes the last 100 MiB
KILLED = STEADY + "while True: held.append(b'y' * (10 << 20)); time.sleep(0.1)"


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of 160 MiB, where this user may make one."""
    for root, name in zip(MEMORY_GROUPS, LIMIT_FILES, strict=True):
        made = Path(root, f"ramledger-test-{os.getpid()}")
        try:
            made.mkdir()
            (made / name).write_text(str(LIMIT))
        except OSError:
            if made.is_dir():
                made.rmdir()
            continue
        # without it a version 2 group swaps first, and a version 1 group may
        for swap, value in (("memory.swap.max", "0"), ("memory.swappiness", "0")):
            if (made / swap).exists():
                (made / swap).write_text(value)
        yield made
        _remove(made)
        return
    pytest.skip("no memory control group can be made here")


def _remove(made: Path) -> None:
    deadline = time.monotonic() + 90
    while made.is_dir():
        try:
            made.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def recorded(
    folder: Path, code: str, *options: str, before: Sequence[str] = ()
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    path, program = folder / "run.ledger.jsonl", folder / "train.py"
    program.write_text(code)
    run = [COMMAND, "run", "--plain", "--out", path, *options, "--", sys.executable, program]
    environment = {**os.environ, "COLUMNS": "300"}
    done = subprocess.run(
        [*before, *map(str, run)], capture_output=True, text=True, timeout=120, env=environment
    )
    return path, done


def told(path: Path) -> tuple[list[str], dict[str, Any]]:
    """The first lines of `diagnose` and `report --terminal`, and the document."""
    environment = {**os.environ, "COLUMNS": "300"}
    verbs = (["diagnose"], ["report", "--terminal"])
    shown = [
        subprocess.run([COMMAND, *verb, path], capture_output=True, text=True, env=environment)
        for verb in verbs
    ]
    document = subprocess.run([COMMAND, "diagnose", "--json", path], capture_output=True)
    return [done.stdout.partition("\n")[0] for done in shown], json.loads(document.stdout)


def summary_of(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of the summary: the one that names the program."""
    return next(line for line in done.stderr.splitlines() if "train.py" in line)


def test_killed_by_the_kernel(tmp_path: Path, group: Path) -> None:
    enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    path, done = recorded(tmp_path, KILLED, before=enter)
    assert done.returncode == -signal.SIGKILL, done.stderr
    said = "was killed by the kernel for memory after"
    firsts, document = told(path)
    for line in (*firsts, summary_of(done)):
        assert said in line
        assert " of 160.0 MiB; what grew last: " in line
    ended = document["ended"]
    assert (ended["how"], ended["signal"]) == ("killed-by-kernel", signal.SIGKILL)
    assert ended["limit_bytes"] == LIMIT
    assert LIMIT // 2 < ended["used_bytes"] <= LIMIT
    assert ended["grew_last"]["bytes"] > 10 * MIB
    assert "healthy" not in done.stderr


def test_killed_by_somebody(tmp_path: Path) -> None:
    path, done = recorded(tmp_path, STEADY + "os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == -signal.SIGKILL
    firsts, document = told(path)
    for line in (*firsts, summary_of(done)):
        assert "was ended by SIGKILL after" in line
        assert "nothing shows that it was for memory" in line
    assert document["ended"]["how"] == "signaled"


def test_failed(tmp_path: Path) -> None:
    path, done = recorded(tmp_path, STEADY + "sys.exit(7)")
    assert done.returncode == 7
    firsts, document = told(path)
    for line in (*firsts, summary_of(done)):
        assert line.endswith("with exit code 7")
    assert (document["ended"]["how"], document["ended"]["exit_code"]) == ("failed", 7)


def test_stopped_at_the_limit(tmp_path: Path) -> None:
    grow = STEADY + "\nwhile True:\n    held.append(b'z' * (4 << 20)); time.sleep(0.1)"
    path, done = recorded(tmp_path, grow, "--limit", "160MiB", "--on-limit", "stop")
    assert done.returncode != 0
    firsts, document = told(path)
    for line in (*firsts, summary_of(done)):
        assert "was stopped early after" in line
        assert "since the limit was about to be reached: " in line
    assert document["ended"]["how"] == "stopped-at-limit"


def test_a_recording_that_is_cut_off(tmp_path: Path) -> None:
    path, done = recorded(tmp_path, STEADY)
    assert done.returncode == 0
    assert told(path)[1]["ended"]["how"] == "finished"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    firsts, document = told(path)
    for line in firsts:
        assert line.endswith("; the recording stops here")
    assert document["ended"]["how"] == "not-recorded"
