"""Small real runs for the tests, and the command line that does the same in a process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import ramledger
from ramledger.train.trainer import Trainer
from ramledger.trainer_config import checked

COMMAND = Path(sys.executable).with_name("ramledger")
SMALL: dict[str, Any] = {
    "population": 4, "generations": 6, "updates": 6, "episodes": 2, "capacity": 900, "seed": 5,
    "validation_episodes": 2,
    "learning": {"hidden": [16, 12], "batch": 8, "lr_spread": 2.0, "n_step": 2},
    "trading": {"window": 10, "steps": 40},
    "market": {"rows": 400, "assets": 3, "features": 3},
    "exploration": {"noise": "ou", "sigma": 0.2},
}  # fmt: skip

SMALL_TOML = """\
population = 4
generations = 6
updates = 6
episodes = 2
capacity = 900
seed = 5
validation_episodes = 2

[learning]
hidden = [16, 12]
batch = 8
lr_spread = 2.0
n_step = 2

[trading]
window = 10
steps = 40

[market]
rows = 400
assets = 3
features = 3

[exploration]
noise = "ou"
sigma = 0.2
"""


def new_trainer(folder: Path, **changes: Any) -> Trainer:
    return Trainer(checked({**SMALL, **changes}), folder, ledger=ramledger.record())


def resumed(folder: Path, **options: Any) -> Trainer:
    return Trainer.resume(folder, ledger=ramledger.record(), options=options)


def same(one: Trainer, other: Trainer) -> None:
    """Every bit of two trainers that could make a difference later."""
    pairs = zip(one.population.tensors(), other.population.tensors(), strict=True)
    for (name, mine), (_, theirs) in pairs:
        assert torch.equal(mine, theirs), name
    # a resumed run may be given more generations
    states = [{**trainer.state(), "config": None} for trainer in (one, other)]
    assert states[0] == states[1]
    first, second = one.buffer, other.buffer
    ones, twos = first.get(first.ordered()), second.get(second.ordered())
    assert isinstance(ones.obs, dict) and isinstance(twos.obs, dict)
    for name, value in ones.obs.items():
        assert value.tobytes() == twos.obs[name].tobytes(), name
    assert ones.action.tobytes() == twos.action.tobytes()
    assert ones.reward.tobytes() == twos.reward.tobytes()


def train(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "train", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120,
        stdin=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
