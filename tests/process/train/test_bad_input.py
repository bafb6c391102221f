"""What is wrong is named in one line with a hint, and nothing of the user's is harmed."""

import resource
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ramledger
from ramledger.cli.main import main
from ramledger.errors import CheckpointError, ConfigError, OverBudgetError
from ramledger.train import checkpoint
from ramledger.train.market import read_market
from ramledger.train.trainer import Trainer
from ramledger.trainer_config import RANGES, checked
from tests.support.small_trainings import SMALL, SMALL_TOML, new_trainer, resumed

HEAD = "date,asset,close,volume\n"
ROWS = [f"2020-{month:02}-{day:02},{asset},{100 + day},{day}"
        for month in (1, 2, 3) for day in range(1, 29) for asset in "ab"]  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("value", [-1, float("nan"), 2**70])
def test_values_out_of_range_are_named(name: str, value: float) -> None:
    table, _, key = name.rpartition(".")
    default: Any = checked({})
    for part in name.split("."):
        default = getattr(default, part)
    given = value if isinstance(default, float) else -1 if value != value else int(value)
    with pytest.raises(ConfigError) as caught:
        checked({table: {key: float(given) if isinstance(default, float) else given}}
                if table else {key: given})  # fmt: skip
    assert key in caught.value.message or "big" in caught.value.message.lower()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (bytes(range(128, 192)) + b"\xff\xfe", "is not text"),
        (b"", "no column date, asset, close"),
        (b"date,asset,close,close\n", "two columns 'close'"),
        ((HEAD + "\n".join([*ROWS[:-1], "NaT,b,5,1"])).encode(), "no date"),
        ((HEAD + "\n".join([*ROWS[:-1], "2020-03-28,b,inf,1"])).encode(), "not finite"),
        ((HEAD + "\n".join([*ROWS[:-1], "2020-03-28,b,0,1"])).encode(), "close of 0"),
        ((HEAD + "\n".join(ROWS[1:])).encode(), "no row for a"),
        ((HEAD + "\n".join([*ROWS, ROWS[0]])).encode(), "again"),
    ],
)
def test_market_files(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "market.csv"
    path.write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        read_market(path)
    assert said in caught.value.message and caught.value.hint


def test_a_folder_is_no_market(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_market(tmp_path)


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


def test_the_command_says_where_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL_TOML)
    Path("taken").write_text("a file")
    for out in ("taken", "/proc/nothing"):
        assert main(["train", "small.toml", "--out", out]) == 1
        assert out in capsys.readouterr().err
    assert Path("taken").read_text() == "a file"
    assert main(["train", "--resume", "--out", "small.toml"]) == 1
    assert main(["train", "--address", "ray://a:1"]) == 1
    assert "--engine ray" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_nothing_is_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--engine", "ray", "--out", "run"]) == 1
    assert "ramledger[ray]" in capsys.readouterr().err
    assert not Path("run").exists()
