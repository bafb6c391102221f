"""What survives under `ramledger run`: kills at random moments, and a limit that is reached.

Fails unless every training that was not killed itself reaches its end, every line of every
recording is whole, and every limit is met by the callback and a statement that names the account.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ramledger.events import SnapshotEvent
from ramledger.measure.known_process import KnownProcess
from ramledger.recording import Recording

KILLS = int(os.environ.get("RAMLEDGER_BENCH_KILLS", "50"))
LIMITS = int(os.environ.get("RAMLEDGER_BENCH_LIMITS", "20"))
RAMLEDGER = Path(sys.executable).with_name("ramledger")

TRAINING = """
import sys, time
import numpy as np
import ramledger
ledger = ramledger.record()
open("pid", "w").write(str(__import__("os").getpid()))
kept = []
for generation in range(30):
    with ledger.phase("train", generation=generation):
        kept.append(np.ones(1 << 20, np.uint8)); time.sleep(0.05)
open("done", "w").write("done")
"""
GROWING = """
import time
import numpy as np
import ramledger
ledger = ramledger.record()
@ledger.on_pressure
def save():
    open("saved", "w").write("saved")
other = np.ones(50 << 20, np.uint8)
kept = []
while True:
    kept.append(np.ones(2 << 20, np.uint8)); time.sleep(0.1)
"""


def start(code: str, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    (folder / "train.py").write_text(code)
    for name in ("pid", "done", "saved", "run.ledger.jsonl"):
        (folder / name).unlink(missing_ok=True)
    command = [str(RAMLEDGER), "run", "--quiet", "--out", "run.ledger.jsonl", *options]
    return subprocess.Popen(
        [*command, "--", sys.executable, "train.py"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(path: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def damage(folder: Path) -> list[str]:
    """What is wrong with the recording: a torn last line of a killed writer is not."""
    path = folder / "run.ledger.jsonl"
    if not path.exists() or not path.stat().st_size:
        return []
    return [note for note in Recording.read(str(path)).notes if "damaged" in note]


def kill_once(folder: Path, victim: str) -> str:
    """Kill at a random moment; what went wrong, or an empty text."""
    with start(TRAINING, folder) as recorder:
        if not wait_for(folder / "pid", 60):
            return "the training did not start"
        training = KnownProcess.of(int((folder / "pid").read_text()))
        time.sleep(random.uniform(0.0, 2.0))
        if victim != "training":
            recorder.kill()
        if victim != "recorder":
            training.send(signal.SIGKILL)
        recorder.wait(60)
    if victim == "recorder" and not wait_for(folder / "done", 60):
        return "the training did not reach its end"
    if victim == "training" and not Recording.read(str(folder / "run.ledger.jsonl")).is_complete:
        return "the recording has no end"
    return "; ".join(damage(folder))


def limit_once(folder: Path) -> str:
    """Reach a limit of 500 MiB at 20 MiB a second; what went wrong, or an empty text."""
    with start(GROWING, folder, "--limit", "500MiB", "--on-limit", "stop") as recorder:
        try:
            recorder.wait(120)
        except subprocess.TimeoutExpired:
            recorder.kill()
            return "nobody stopped it"
    if not (folder / "saved").exists():
        return "the callback did not run"
    recording = Recording.read(str(folder / "run.ledger.jsonl"))
    last = [e for e in recording.of_type(SnapshotEvent) if e.label == "pressure"]
    if not last:
        return "there is no last statement"
    largest = max(last[-1].statement.entries, key=lambda entry: entry.resident_bytes).account
    return "" if largest == "variables/train.py:kept" else f"it names {largest}"


def main() -> int:
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for victim in ("recorder", "training", "both"):
            rounds = KILLS // 3 + (victim == "recorder") * (KILLS % 3)
            bad = [problem for _ in range(rounds) if (problem := kill_once(folder, victim))]
            print(
                f"kill -9 of {victim:<9} {rounds - len(bad):>3} of {rounds} as promised", flush=True
            )
            failures += bad
        bad = [problem for _ in range(LIMITS) if (problem := limit_once(folder))]
        print(f"limit of 500 MiB    {LIMITS - len(bad):>3} of {LIMITS} as promised", flush=True)
        failures += bad
    for problem in failures:
        print(f"  {problem}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
