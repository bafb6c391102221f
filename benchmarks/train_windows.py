"""A population of 16 on windows of 504 rows × 108 assets × 9 features: what it takes in RAM.

    python benchmarks/train_windows.py [--generations 25] [--keep FOLDER]

The shape of a trainer that crashed at 175 GB while it saved its buffer. Runs `ramledger train` in
a process of its own, then reads its recording and judges it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ramledger.events import PhaseEvent
from ramledger.recording import Recording
from ramledger.units import GIB, MIB, format_bytes

COMMAND = Path(sys.executable).with_name("ramledger")
CONFIG = """\
population = 16
episodes = 1
validation_episodes = 1
updates = 3
capacity = 50_000
shared_batch = true

[learning]
hidden = [64, 64]
batch = 32

[trading]
window = 504
steps = 125

[market]
rows = 2520
assets = 108
features = 9
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generations", type=int, default=25)
    parser.add_argument("--keep", type=Path, help="where to leave the run")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "shape.toml").write_text(CONFIG)
        begin = time.monotonic()
        command = [
            str(COMMAND),
            "train",
            "shape.toml",
            "--out",
            "run",
            "--json",
            "--budget",
            "2GiB",
        ]
        done = subprocess.run(
            [*command, "--generations", str(options.generations)],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        seconds = time.monotonic() - begin
        if done.returncode:
            sys.exit(done.stderr)
        run: dict[str, Any] = json.loads(done.stdout)
        _print(folder / "run", run, seconds)


def _print(folder: Path, run: dict[str, Any], seconds: float) -> None:
    path = folder / "train.ledger.jsonl"
    phases = list(Recording.read(str(path)).of_type(PhaseEvent))
    judged = subprocess.run([COMMAND, "diagnose", path, "--json"], capture_output=True, text=True)
    verdict = json.loads(judged.stdout)["verdict"]
    saves = [event for event in phases if event.name == "checkpoint"]
    above = max(event.peak_bytes - event.before_bytes for event in saves)
    pause = run["longest_pause_seconds"]
    peak = max(event.peak_bytes for event in phases)
    levels = [event.after_bytes for event in phases if event.name == "evolve"]
    half = len(levels) // 2
    disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    rows = [
        ("generations × transitions", f"{run['generations']} × 2,000", ""),
        ("peak RSS", format_bytes(peak), f"below {format_bytes(2 * GIB)}"),
        ("RSS from the middle to the end", format_bytes(levels[-1] - levels[half]), "flat"),
        ("diagnose", verdict, "healthy"),
        ("a checkpoint's peak above", format_bytes(above), f"below {format_bytes(64 * MIB)}"),
        ("the longest wait for a checkpoint", f"{pause:.2f} s", ""),
        ("folder with all checkpoints kept", format_bytes(disk), ""),
        ("wall time", f"{seconds:.0f} s", ""),
    ]
    print("| what | measured | wanted |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
