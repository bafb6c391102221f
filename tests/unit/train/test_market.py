"""Markets from files: what is accepted, and what is said about the rest."""

from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv, parquet

from ramledger.errors import ConfigError
from ramledger.train.market import read_market, synthetic_market

LINES = [
    f"2020-01-{day:02d},{asset},{100 + day * (1 if asset == 'A' else 2)},{day * 0.5}"
    for day in range(1, 21)
    for asset in ("B", "A")
]


def written(folder: Path, lines: list[str], head: str = "date,asset,close,volume") -> Path:
    path = folder / "market.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_a_csv_is_read_and_normalized_with_training_rows_alone(tmp_path: Path) -> None:
    market = read_market(written(tmp_path, LINES[::-1]))
    assert (market.assets, market.features) == (("A", "B"), ("return", "volume"))
    assert market.table.shape == (20, 2, 2)
    assert market.returns[1].tolist() == pytest.approx([102 / 101 - 1, 104 / 102 - 1])
    assert (market.train.end, market.validation.end, market.test.end) == (14, 17, 20)
    assert market.train.end == market.validation.begin
    of_training = market.table[:14, :, 1]
    assert of_training.mean() == pytest.approx(0, abs=1e-6)
    assert of_training.std() == pytest.approx(1, rel=1e-5)
    later = [line.replace("2020-01-20,A,120", "2020-01-20,A,999") for line in LINES]
    other = read_market(written(tmp_path, later))
    assert np.array_equal(other.table[:19], market.table[:19])


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    path = written(tmp_path, LINES)
    target = tmp_path / "market.parquet"
    parquet.write_table(csv.read_csv(path), target)
    one, two = read_market(path), read_market(target)
    assert np.array_equal(one.table, two.table) and np.array_equal(one.dates, two.dates)


@pytest.mark.parametrize(
    ("lines", "head", "said"),
    [
        (LINES, "date,asset,price,volume", "no column close"),
        (LINES[:-1], "date,asset,close,volume", "no row for A at 2020-01-20"),
        ([*LINES, LINES[0]], "date,asset,close,volume", "a second row for B at 2020-01-01"),
        ([*LINES, "soon,A,1,1"], "date,asset,close,volume", "line 42"),
        ([*LINES, "2020-01-21,A,x,1"], "date,asset,close,volume", "line 42: could not convert"),
        ([*LINES, "2020-01-21,A,nan,1"], "date,asset,close,volume", "not finite"),
        (
            [line.replace(",101,", ",0,") for line in LINES],
            "date,asset,close,volume",
            "close must be positive, got 0",
        ),
        ([], "date,asset,close,volume", "at least 2 dates, got 0"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, lines: list[str], head: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        read_market(written(tmp_path, lines, head))
    assert caught.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_market(tmp_path / "nothing.csv")


def test_the_planted_signal_is_there_and_only_if_wanted() -> None:
    for signal in (0.0, 0.5):
        market = synthetic_market(rows=4000, assets=3, features=3, signal=signal, seed=2)
        told, earned = market.table[:-1, :, 1], market.returns[1:]
        found = np.corrcoef(told.ravel(), np.sign(earned).ravel())[0, 1]
        assert abs(found - signal * 0.8) < 0.06
    assert np.array_equal(synthetic_market(seed=3).table, synthetic_market(seed=3).table)
