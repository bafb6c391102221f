"""`--apply workers`: what forked workers share stays shared, and they draw their own numbers.

And what they copy by reading a list is said.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_programs import COMMAND

COLLECTS = """
import gc, json, multiprocessing, sys
import torch

def private():
    with open("/proc/self/smaps_rollup") as file:
        fields = dict(line.split(":") for line in file.readlines()[1:])
    return int(fields["Private_Dirty"].split()[0]) << 10

def work(answer):
    before = private()
    gc.collect()
    answer.put((private() - before, gc.get_freeze_count()))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    answer = context.SimpleQueue()
    worker = context.Process(target=work, args=(answer,))
    worker.start()
    grown, frozen = answer.get()
    worker.join()
    print("RESULT", json.dumps([grown, frozen, gc.get_freeze_count()]))
"""

DRAWS = """
import json, multiprocessing, sys
import gymnasium, numpy as np

def work(answer):
    answer.put(np.random.rand())

if __name__ == "__main__":
    if sys.argv[1:]:
        multiprocessing.set_forkserver_preload(sys.argv[1:])
    context = multiprocessing.get_context("forkserver")
    answer = context.SimpleQueue()
    workers = [context.Process(target=work, args=(answer,)) for _ in range(3)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    print("RESULT", json.dumps([answer.get() for _ in workers]))
"""

READS = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Transitions(Dataset):
    def __init__(self, count):
        self.rows = [(i, float(i), i / 7) for i in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        first, second, third = self.rows[at]
        return torch.tensor([first, second, third], dtype=torch.float32)

def train():
    data = Transitions(400_000)
    loader = DataLoader(data, batch_size=4096, num_workers=2, persistent_workers=True)
    for epoch in range(2):
        for batch in loader:
            batch.sum()
    time.sleep(12)  # the memory of workers is read every ten seconds

if __name__ == "__main__":
    train()
"""


def run(folder: Path, program: str, *words: str, apply: str = "") -> tuple[Any, dict[str, Any]]:
    script = folder / "train.py"
    script.write_text(program)
    command = [COMMAND, "run", "--json", "--force", "--out", str(folder / "run.ledger.jsonl")]
    command += ["--apply", apply] if apply else []
    command += ["--", sys.executable, str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("RESULT")]
    result = json.loads(lines[0].removeprefix("RESULT ")) if lines else None
    return result, json.loads(done.stdout)


def test_a_collection_in_a_worker_copies_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (copied, frozen, _), _ = run(tmp_path, COLLECTS, "fork")
    assert copied > 10 << 20
    assert frozen == 0
    for method in ("fork", "forkserver"):
        (grown, frozen, frozen_in_parent), document = run(
            tmp_path, COLLECTS, method, apply="workers"
        )
        assert grown < copied / 4
        assert frozen > 0
        assert frozen_in_parent == 0
        said = [one["text"] for one in document["remedies"]["applied"]]
        assert "collections in forked workers leave alone what these share" in said


def test_a_spawned_worker_is_left_alone(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (_, frozen, _), _ = run(tmp_path, COLLECTS, "spawn", apply="workers")
    assert frozen == 0


def test_workers_that_share_numpy_draw_their_own_numbers(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    drawn, document = run(tmp_path, DRAWS, apply="workers")
    assert len(set(drawn)) == 3
    texts = [one["text"] for one in document["remedies"]["applied"]]
    assert any("imports numpy, gymnasium" in text for text in texts)


def test_numbers_of_the_programs_own_preload_stay(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    drawn, _ = run(tmp_path, DRAWS, "numpy.random", apply="workers")
    assert len(set(drawn)) == 1


def test_a_list_that_workers_copy_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    _, document = run(tmp_path, READS)
    (found,) = [f for f in document["diagnosis"]["findings"] if "forked workers" in f["summary"]]
    assert found["kind"] == "waste"
    assert "2 forked workers" in found["evidence"][0]
    assert "data.rows has 400,000 × tuple" in found["evidence"][0]
    assert "self.rows = np.array([(i, float(i), i / 7) for i in range(count)])" in found["advice"]
