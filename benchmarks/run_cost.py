"""What `ramledger run` costs a training, beside plain Python, memray, scalene and tracemalloc.

CPU is the training's own (all of its threads), read around its loop and at its exit; the tools run
in turn, so a ratio compares neighbors in time. "plain again" shows the noise of the machine, and
"own thread" what the kernel booked to ramledger's thread: that part is exact.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROUNDS = int(os.environ.get("RAMLEDGER_BENCH_ROUNDS", "3"))
LENGTH = float(os.environ.get("RAMLEDGER_BENCH_LENGTH", "1"))  # 1: about 15 s of each loop
PATIENCE_SECONDS = 20 + 100 * LENGTH  # a tool may hang, or slow a loop beyond any use

PROGRAM = """
import json, os, sys, time
def spent():
    return time.process_time()
def agent():
    used = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as comm, \
                open(f"/proc/self/task/{task}/schedstat") as times:
            used += int(times.read().split()[0]) * (comm.read().strip() == "ramledger")
    return used / 1e9
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
import numpy as np
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
def generation(first, steps, every):
    for i in range(first, first + steps):
        step(i)
        if i % every == 0:
            update()
def main(steps, every):
    started = spent()
    for g in range(20):
        generation(g * steps, steps, every)
    return spent() - started
steps, every, answer = os.environ["COST"].split()
loop = main(int(steps), int(every))
with open(answer, "w") as out:
    json.dump({"loop": loop, "total": spent(), "peak": peak(), "agent": agent()}, out)
"""
SLOW = {"scalene", "tracemalloc"}  # one round says enough
# steps a generation, and an update every so many steps
LOOPS = {"train-bound": (8_000, 16), "step-bound": (400_000, 8_000)}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one finished training: CPU seconds of its loop, in all and of our thread; peak RSS."""

    loop: float
    total: float
    peak: int
    agent: float


def tools(folder: Path) -> dict[str, list[str]]:
    """How each tool starts a script; those that are not installed are left out."""
    python, scripts = sys.executable, Path(sys.executable).parent
    recording = str(folder / "r.ledger.jsonl")
    found = {
        "plain": [python],
        "ramledger run": [
            *(str(scripts / "ramledger"), "run", "--quiet", "--force"),
            *("--out", recording, "--", python),
        ],
        "plain again": [python],
    }
    if (scripts / "memray").exists():
        out = str(folder / "memray.bin")
        found["memray run"] = [python, "-m", "memray", "run", "-q", "-f", "-o", out]
    scalene = Path(".venv-scalene/bin/scalene").absolute()
    if scalene.exists():
        found["scalene"] = [str(scalene), "run", "-o", str(folder / "s.json")]
    found["tracemalloc"] = [python, "-X", "tracemalloc=1"]
    return found


def measure(prefix: list[str], script: Path, loop: tuple[int, int], folder: Path) -> Cost | None:
    """Run a script under a tool; the script itself tells what it used. None if it never does."""
    answer = folder / "cost.json"
    answer.unlink(missing_ok=True)
    steps, every = loop
    with subprocess.Popen(
        [*prefix, str(script)],
        env=os.environ
        | {"COST": f"{int(steps * LENGTH)} {every} {answer}"}
        | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    return Cost(**json.loads(answer.read_text())) if answer.exists() else None


def report(loop: str, tool: str, costs: list[Cost | None], plain: list[Cost]) -> None:
    pairs = [(c, p) for c, p in zip(costs, plain, strict=False) if c is not None]
    if not pairs:
        print(f"{loop:<12} {tool:<14} not done after {PATIENCE_SECONDS:.0f} s", flush=True)
        return
    ratio = statistics.median(c.loop / p.loop for c, p in pairs)
    beside = statistics.median((c.total - c.loop) - (p.total - p.loop) for c, p in pairs)
    own = statistics.median(c.agent / p.loop for c, p in pairs)
    more = statistics.median(c.peak - p.peak for c, p in pairs)
    print(
        f"{loop:<12} {tool:<14} {ratio:7.3f} {own:10.2%} {beside:+12.2f} s "
        f"{more / 2**20:+9.1f} MiB",
        flush=True,
    )


def main() -> None:
    print(
        f"{'loop':<12} {'under':<14} {'loop ×':>7} {'own thread':>10} "
        f"{'outside it':>14} {'peak RSS':>13}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "train.py"
        script.write_text(PROGRAM)
        for loop, size in LOOPS.items():
            rows: dict[str, list[Cost | None]] = {}
            for turn in range(ROUNDS):
                for tool, prefix in tools(folder).items():
                    if turn == 0 or tool not in SLOW:
                        rows.setdefault(tool, []).append(measure(prefix, script, size, folder))
            plain = [cost for cost in rows["plain"] if cost is not None]
            for tool, costs in rows.items():
                report(loop, tool, costs, plain)


if __name__ == "__main__":
    main()
