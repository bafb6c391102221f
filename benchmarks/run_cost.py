"""What `ramledger run` costs a training: processor time and RSS, beside plain, memray, tracemalloc.

CPU is the training's own, from its exit status (rusage), so a busy machine disturbs little; each
ratio is the median over rounds, and plain runs before and after show the noise.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROUNDS = int(os.environ.get("RAMLEDGER_BENCH_ROUNDS", "3"))

HEAD = """
import numpy as np, resource, time
rng = np.random.default_rng(0)
replay = np.zeros((40_000, 64, 64), np.uint8)
weights = [rng.standard_normal((256, 256)).astype(np.float32) for _ in range(4)]
def update():
    x = rng.standard_normal((256, 256)).astype(np.float32)
    for w in weights:
        x = np.tanh(x @ w)
    return x
def step(i):
    replay[i % 20_000] = i & 255
    return {"reward": float(i), "obs": replay[i % 20_000]}
"""
LOOPS = {
    "train-bound": "def main():\n    for i in range(60_000):\n        step(i)\n"
    "        if i % 16 == 0:\n            update()\nmain()\n",
    "step-bound": "def main():\n    for i in range(1_500_000):\n        step(i)\n"
    "        if i % 8000 == 0:\n            update()\nmain()\n",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one finished training."""

    cpu_seconds: float
    peak_bytes: int


SAY = (
    "import atexit, json, os, resource\n"
    "def _say():\n"
    "    u = resource.getrusage(resource.RUSAGE_SELF)\n"
    "    open(os.environ['COST_FILE'], 'w').write(\n"
    "        json.dumps([u.ru_utime + u.ru_stime, u.ru_maxrss * 1024]))\n"
    "atexit.register(_say)\n"
)


def measure(prefix: Sequence[str], script: Path, folder: Path) -> Cost:
    """Run a script under a tool; the script itself tells what it used, at its exit."""
    import json

    cost_file = folder / "cost.json"
    environment = os.environ | {
        "COST_FILE": str(cost_file), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    subprocess.run(
        [*prefix, str(script)], env=environment, check=True, cwd=folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    cpu, peak = json.loads(cost_file.read_text())
    return Cost(cpu, peak)


def tools(folder: Path) -> dict[str, list[str]]:
    """How each tool starts a script; those that are not installed are left out."""
    python, bin_dir = sys.executable, Path(sys.executable).parent
    found = {
        "plain": [python],
        "ramledger run": [
            str(bin_dir / "ramledger"), "run", "--quiet", "--force", "--out",
            str(folder / "r.ledger.jsonl"), "--", python,
        ],
        "plain again": [python],
    }  # fmt: skip
    if (bin_dir / "memray").exists():
        out = str(folder / "memray.bin")
        found["memray run"] = [python, "-m", "memray", "run", "-q", "-f", "-o", out]
    if os.environ.get("RAMLEDGER_BENCH_SLOW"):
        found["tracemalloc"] = [python, "-X", "tracemalloc=1"]
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'loop':<12} {'under':<16} {'CPU ×':>7} {'peak RSS':>10}")
        for loop, code in LOOPS.items():
            script = folder / "train.py"
            script.write_text(SAY + HEAD + code)
            rows: dict[str, list[Cost]] = {}
            for _ in range(ROUNDS):
                for tool, prefix in tools(folder).items():
                    rows.setdefault(tool, []).append(measure(prefix, script, folder))
            plain = statistics.median(c.cpu_seconds for c in rows["plain"])
            base = statistics.median(c.peak_bytes for c in rows["plain"])
            for tool, costs in rows.items():
                ratio = statistics.median(c.cpu_seconds for c in costs) / plain
                more = statistics.median(c.peak_bytes for c in costs) - base
                print(f"{loop:<12} {tool:<16} {ratio:7.3f} {more / 2**20:+8.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
