"""Checkpoints are sent while training goes on; another machine continues from what was sent."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ramledger
from ramledger.errors import CheckpointError, ConfigError
from ramledger.train.remote_checkpoints import fetch
from ramledger.train.trainer import Listener, Trainer
from ramledger.trainer_config import checked
from tests.support.small_trainings import SMALL, SMALL_TOML, new_trainer, resumed, same, train


class Told(Listener):
    """Keeps what is said of uploads, and lets a test act between two generations."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.acts: dict[int, Any] = {}

    def upload(self, trainer: Trainer, text: str) -> None:
        self.said.append(text)

    def generation(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self.acts.get(trainer.generation, lambda: None)()


def sending(folder: Path, store: Path, generations: int, told: Told) -> Trainer:
    config = checked({**SMALL, "generations": generations})
    return Trainer(config, folder, ledger=ramledger.record(), listener=told, upload=str(store))


def test_what_was_sent_goes_on_elsewhere(tmp_path: Path) -> None:
    told = Told()
    here = sending(tmp_path / "here", tmp_path / "store", 4, told)
    here.run()
    assert here.uploader is not None and here.uploader.error is None
    assert told.said and told.said[-1].startswith("save 4 is at ")
    # only what is kept is there: two saves, two states
    assert len(list((tmp_path / "store").glob("uploads/*.json"))) == 2
    assert len(list((tmp_path / "store").rglob("state-*.tensors"))) == 2
    shutil.rmtree(tmp_path / "here")
    fetch(str(tmp_path / "store"), tmp_path / "there")
    there = resumed(tmp_path / "there", generations=6)
    same(here, there)
    there.run()
    whole = new_trainer(tmp_path / "whole")
    whole.run()
    same(whole, there)


def test_a_store_that_is_away_does_not_end_the_training(tmp_path: Path) -> None:
    store, told = tmp_path / "store", Told()

    def lose() -> None:
        shutil.rmtree(store)
        store.write_text("not a folder")

    told.acts = {2: lose, 5: store.unlink}
    trainer = sending(tmp_path / "run", store, 6, told)
    assert trainer.run() == "finished"
    assert any(text.startswith("not uploaded: ") for text in told.said)
    assert trainer.uploader is not None and trainer.uploader.error is None
    fetch(str(store), tmp_path / "there")
    same(trainer, resumed(tmp_path / "there"))


def test_the_command_sends_and_fetches(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL_TOML)
    done = train("small.toml", "--out", "a", "--generations", "2", "--upload", "store",
                 cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "upload    save 2 is at store" in done.stdout
    done = train("--out", "b", "--generations", "3", "--resume", "--upload", "store", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "generation 3 of 3" in done.stdout and "generation 2 of 3" not in done.stdout
    whole = new_trainer(tmp_path / "whole", generations=3)
    whole.run()
    same(whole, resumed(tmp_path / "b"))


def test_another_run_is_not_replaced(tmp_path: Path) -> None:
    sending(tmp_path / "a", tmp_path / "store", 1, Told()).run()
    other = sending(tmp_path / "b", tmp_path / "store", 1, Told())
    assert other.run() == "finished"
    assert other.uploader is not None and other.uploader.error is not None
    assert "another buffer" in other.uploader.error.message
    assert resumed(tmp_path / "b").generation == 1


def test_wrong_addresses_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot open"):
        Trainer(checked(SMALL), tmp_path, ledger=ramledger.record(), upload="nothing://here")
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        fetch(str(tmp_path / "empty"), tmp_path / "there")
