"""What is wrong is named in one line with a hint, and nothing of the user's is harmed."""

import resource
from pathlib import Path

import pytest

import ramledger
from ramledger.errors import CheckpointError, OverBudgetError
from ramledger.train import checkpoint
from ramledger.train.trainer import Trainer
from ramledger.trainer_config import checked
from tests.support.small_trainings import SMALL, new_trainer, resumed


def test_networks_that_nothing_could_hold_are_not_allocated(tmp_path: Path) -> None:
    wide = {**SMALL, "learning": {"hidden": [65536, 65536]}, "population": 1000, "episodes": 1}
    with pytest.raises(OverBudgetError, match="networks and optimizer of 1000 agents") as caught:
        Trainer(checked(wide), tmp_path, ledger=ramledger.record())
    assert caught.value.needed_bytes > caught.value.limit_bytes


def test_a_market_that_nothing_could_hold_is_not_made(tmp_path: Path) -> None:
    large = {**SMALL, "market": {"rows": 10**9, "assets": 1000, "features": 9}}
    with pytest.raises(OverBudgetError, match="market") as caught:
        Trainer(checked(large), tmp_path, ledger=ramledger.record())
    assert "market.rows" in caught.value.hint


def test_a_full_disk_leaves_earlier_checkpoints(tmp_path: Path) -> None:
    first = new_trainer(tmp_path, generations=1)
    first.run()
    names = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    second = resumed(tmp_path, generations=2)
    # no file may become so large, as on a disk that is full
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(CheckpointError, match="File too large") as caught:
            second.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "untouched" in caught.value.hint
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == names
    again = resumed(tmp_path, generations=2)
    assert again.generation == 1
    assert again.run() == "finished"
    assert len(checkpoint.numbers_in(tmp_path)) == 2
