"""`--apply workers`, `malloc` and `threads` on small programs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_programs import COMMAND

WORKERS = """
import multiprocessing, os, sys
import {imported}

def work(queue, answer):
    queue.get()
    with open("/proc/self/smaps_rollup") as file:
        fields = dict(line.split(":") for line in file.readlines()[1:])
    answer.put((int(fields["Private_Dirty"].split()[0]), os.environ.get("OMP_NUM_THREADS")))

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    queue, answer = context.Queue(), context.Queue()
    workers = [context.Process(target=work, args=(queue, answer)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        queue.put(1)
    found = [answer.get() for _ in workers]
    for worker in workers:
        worker.join()
    print("RESULT", max(size for size, _ in found), found[0][1])
"""

FREES = """
import time, numpy as np
for iteration in range(60):
    kept = [np.ones(9000) for _ in range(3000)]
    del kept[::2]
    del kept
    time.sleep(0.25)
print("RESULT", 0)
"""


def applied(folder: Path, program: str, apply: str) -> tuple[list[str], list[dict[str, Any]]]:
    script = folder / "train.py"
    script.write_text(program)
    words = [COMMAND, "run", "--json", "--quiet", "--force", "--apply", apply]
    words += ["--out", str(folder / "run.ledger.jsonl"), "--", sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stderr.splitlines() if line.startswith("RESULT"))
    remedies = json.loads(done.stdout)["remedies"] or {"applied": []}
    return line.split()[1:], remedies["applied"]


def test_workers_share_what_the_fork_server_imports(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = WORKERS.replace("{imported}", "torch")
    alone, _ = applied(tmp_path, program, "threads")
    shared, said = applied(tmp_path, program, "workers")
    # what a worker copies of the shared pages is a small part of what it imports by itself
    assert int(shared[0]) < int(alone[0]) / 2
    assert any("imports numpy, torch: workers share them" in one["text"] for one in said)


def test_workers_compute_with_one_thread(tmp_path: Path) -> None:
    found, said = applied(tmp_path, WORKERS.replace("{imported}", "json"), "threads")
    assert found[1] == "1"
    assert [one["text"] for one in said] == ["workers compute with one thread each"]


def test_a_trim_says_what_it_gave_back(tmp_path: Path) -> None:
    _, said = applied(tmp_path, FREES, "malloc")
    chosen, trimmed = (one["text"] for one in said)
    assert chosen.startswith("MALLOC_MMAP_THRESHOLD_=1048576, the default")
    assert "gave back" in trimmed
