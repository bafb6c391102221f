"""The file of the best agent appears whole or not at all."""

import resource
from pathlib import Path

import pytest

from ramledger.errors import CheckpointError
from ramledger.train.export import export_best
from tests.support.small_trainings import new_trainer


@pytest.mark.parametrize("name", ["best.npz", "best.pt"])
def test_an_export_that_finds_no_room_leaves_the_old_one(name: str, tmp_path: Path) -> None:
    population = new_trainer(tmp_path / "run").population
    path = tmp_path / name
    export_best(population, path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        with pytest.raises(CheckpointError, match="cannot write") as caught:
            export_best(population, path, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint and "\n" not in caught.value.message
    assert path.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} <= {name, "run"}
    export_best(population, path, force=True)
    assert path.read_bytes()
