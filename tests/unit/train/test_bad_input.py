"""Values, markets and places that make no sense are named in one line with a hint."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ramledger.cli.main import main
from ramledger.errors import ConfigError
from ramledger.train.market import read_market
from ramledger.trainer_config import RANGES, checked
from tests.support.small_trainings import SMALL_TOML

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
        (
            (HEAD + "\n".join([*ROWS[:-1], "2020-03-28,b,0,1"])).encode(),
            "close must be positive, got 0",
        ),
        ((HEAD + "\n".join(ROWS[1:])).encode(), "no row for a"),
        ((HEAD + "\n".join([*ROWS, ROWS[0]])).encode(), "a second row for"),
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
