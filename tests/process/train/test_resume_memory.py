"""Resuming holds one buffer and one population, however many checkpoints are damaged."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ramledger.train import checkpoint
from tests.support.places import ROOT
from tests.support.small_trainings import COMMAND

pytestmark = pytest.mark.xdist_group("resume-memory")

MAKE = """
import sys
from pathlib import Path
import numpy as np
import ramledger
from ramledger.trainer_config import checked
from ramledger.train.trainer import Trainer
config = checked({"env": "Pendulum-v1", "population": 2, "capacity": 3_000_000, "episodes": 1,
                  "learning": {"hidden": [700, 700], "batch": 8}, "keep": 3})
trainer = Trainer(config, Path(sys.argv[1]), ledger=ramledger.record())
steps = 1_500_000
for env in range(2):
    for _ in range(3):
        rows = np.random.default_rng(env).normal(size=(steps // 3 + 1, 3)).astype(np.float32)
        zeros = np.zeros(steps // 3, np.float32)
        trainer.buffer.extend(rows[:-1], zeros[:, None], zeros, rows[1:], zeros.astype(bool),
                              env=env)
for number in range(3):
    trainer.generation = number + 1
    trainer.buffer.rng.random(1)
    rows = np.full((2, 3), number, np.float32)
    trainer.buffer.add_step(rows, np.zeros((2, 1), np.float32), np.zeros(2), rows + 1,
                            [True] * 2, [False] * 2)
    trainer.save()
    trainer._finish_saving()
print(trainer.buffer.used_bytes, sum(t.nbytes for _, t in trainer.population.tensors()))
"""

RESUME = """
import sys
from pathlib import Path
import ramledger
from ramledger.train.trainer import Trainer
import gymnasium, torch
def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10
torch.ones(10, requires_grad=True).sum().backward()
before = status("VmRSS:")
trainer = Trainer.resume(Path(sys.argv[1]), ledger=ramledger.record())
print(trainer.generation, len(trainer.lost), status("VmHWM:") - before)
"""


def run(program: str, folder: Path) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, cwd=ROOT,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(number) for number in done.stdout.split()]


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """A run with three checkpoints, and the bytes of its buffer and population."""
    folder = tmp_path_factory.mktemp("run")
    buffer_bytes, population_bytes = run(MAKE, folder)
    return folder, buffer_bytes, population_bytes


def test_one_buffer_and_one_population_at_a_time(made: tuple[Path, int, int]) -> None:
    folder, buffer_bytes, population_bytes = made
    assert buffer_bytes > 60 << 20 and population_bytes > 24 << 20
    generation, lost, whole_peak = run(RESUME, folder)
    assert (generation, lost) == (3, 0)
    room = whole_peak + min(buffer_bytes, population_bytes) // 2
    # a tensor of the newest state, and a row of the newest save of the one before
    state = checkpoint.path_of(folder, 3)
    flip(state, state.stat().st_size // 2)
    generation, lost, peak = run(RESUME, folder)
    assert (generation, lost) == (2, 1)
    assert peak < room, f"{peak >> 20} MiB, {whole_peak >> 20} MiB without damage"
    newest = sorted((folder / "replay").glob("00000002-*.seg"))[-1]
    flip(newest, newest.stat().st_size - 3)
    generation, lost, peak = run(RESUME, folder)
    assert (generation, lost) == (1, 2)
    assert peak < room, f"{peak >> 20} MiB, {whole_peak >> 20} MiB without damage"


def test_the_budget_is_checked_before_anything_is_allocated(made: tuple[Path, int, int]) -> None:
    folder, buffer_bytes, _ = made
    program = """
import resource, subprocess, sys
command, folder = sys.argv[1:]
done = subprocess.run([command, "train", "--resume", "--out", folder, "--budget", "200MiB",
                       "--generations", "9"], capture_output=True, text=True)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
print(done.stderr, file=sys.stderr)
"""
    peaks: list[Any] = []
    for budget in ("200MiB", "190MiB"):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("200MiB", budget), str(COMMAND), str(folder)],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        code, peak = map(int, done.stdout.split())
        assert code == 3, done.stderr
        peaks.append(peak)
    imports = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=120
    )
    assert max(peaks) < json.loads(imports.stdout) + buffer_bytes // 2


IMPORTS = """
import gymnasium, resource, torch
import ramledger.train.trainer, ramledger.train.planned_needs, ramledger.cli.train
import ramledger.report.terminal.plan_text
import ramledger
ramledger.record().snapshot(objects=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
"""
