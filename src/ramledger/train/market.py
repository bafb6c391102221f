"""A market as one table: prices and features by date and asset, from a file or synthetic.

Features are normalized once with the statistics of the training dates alone.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ramledger import ConfigError
from ramledger.trainer_config import ASSET, CLOSE, DATE
from ramledger.user_files import open_to_read, text_lines

Array = np.ndarray[Any, np.dtype[Any]]

COLUMNS_HINT = "one row a date and asset, with the columns date, asset, close and any features"
CLIP = 8.0  # standard deviations: what is farther out is an error in the data, or will be learned
SPLIT = (0.7, 0.15)  # shares of the dates for training and validation; the rest is for tests


@dataclass(frozen=True, slots=True)
class Span:
    """Rows `begin` to `end` of a market: decisions are made and paid for within."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Market:
    """A table `[dates, assets, features]`, normalized, and what each asset returned that day."""

    dates: Array
    assets: tuple[str, ...]
    features: tuple[str, ...]
    table: Array  # float32
    returns: Array  # [dates, assets]: row t is close[t] / close[t - 1] - 1
    train: Span
    validation: Span
    test: Span


def make_market(
    dates: Array, assets: Iterable[str], close: Array, features: dict[str, Array]
) -> Market:
    """A market from raw columns `[dates, assets]`; a day's return is always the first feature."""
    returns = np.zeros(close.shape, np.float32)
    returns[1:] = close[1:] / close[:-1] - 1
    first = int(len(dates) * SPLIT[0])
    second = int(len(dates) * (SPLIT[0] + SPLIT[1]))
    raw = np.stack([returns, *features.values()], axis=2).astype(np.float32)
    mean = raw[:first].mean(axis=(0, 1))
    deviation = raw[:first].std(axis=(0, 1))
    table = np.clip((raw - mean) / np.where(deviation > 0, deviation, 1), -CLIP, CLIP)
    return Market(
        dates, tuple(assets), ("return", *features), np.ascontiguousarray(table, np.float32),
        returns, Span(0, first), Span(first, second), Span(second, len(dates)),
    )  # fmt: skip


# ---- from a file -------------------------------------------------------------------------------


def read_market(path: str | Path) -> Market:
    """A market from a CSV or Parquet file; see docs/train.md for the columns."""
    path = Path(path)
    # a FIFO or a device would keep whoever reads it waiting
    open_to_read(path, ConfigError, f"give a CSV or Parquet file: {COLUMNS_HINT}").close()
    try:
        return _read(path)
    except (OSError, csv.Error) as error:
        raise ConfigError(f"cannot read {path.name}: {error}", hint=COLUMNS_HINT) from None


def _read(path: Path) -> Market:
    names, rows = _parquet(path) if path.suffix in (".parquet", ".pq") else _csv(path)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path.name} has two columns {twice[0]!r}", hint=COLUMNS_HINT)
    missing = [name for name in (DATE, ASSET, CLOSE) if name not in names]
    if missing:
        raise ConfigError(f"{path.name} has no column {', '.join(missing)}", hint=COLUMNS_HINT)
    features = [name for name in names if name not in (DATE, ASSET, CLOSE)]
    dates, assets, values = _pivoted(path.name, rows, [CLOSE, *features])
    close = values[:, :, 0]
    if close.min() <= 0:
        raise ConfigError(
            f"{path.name}: close must be positive, got {close.min():g}", hint="remove or correct it"
        )
    columns = {name: values[:, :, 1 + at] for at, name in enumerate(features)}
    return make_market(dates, assets, close, columns)


def _csv(path: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
    names = next(csv.reader(text_lines(path, ConfigError, COLUMNS_HINT)), [])
    return names, csv.DictReader(text_lines(path, ConfigError, COLUMNS_HINT))


def _parquet(path: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ConfigError(
            f"reading {path.name} needs pyarrow",
            hint="pip install 'ramledger[parquet]', or give a CSV file",
        ) from None
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path.name} is not a Parquet file: {error}", hint=COLUMNS_HINT
        ) from None

    def rows() -> Iterator[dict[str, Any]]:
        for batch in file.iter_batches():
            yield from batch.to_pylist()

    return list(file.schema_arrow.names), rows()


def _pivoted(
    name: str, rows: Iterable[dict[str, Any]], columns: list[str]
) -> tuple[Array, list[str], Array]:
    """`[dates, assets, columns]`, complete and sorted, or an error that names the first gap."""
    found: dict[tuple[Any, str], list[float]] = {}
    for number, row in enumerate(rows, 2):
        try:
            day = np.datetime64(str(row[DATE]).strip(), "s")
            asset = str(row[ASSET]).strip()
            values = [float(row[column]) for column in columns]
            if np.isnat(day):
                raise ValueError("no date")
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{name}, line {number}: {error}", hint="dates are ISO 8601, all else numbers"
            ) from None
        if not np.isfinite(values).all():
            raise ConfigError(f"{name}, line {number}: a value is not finite", hint="fill the gap")
        if (day, asset) in found:
            raise ConfigError(
                f"{name}, line {number}: a second row for {asset} at {day}", hint=COLUMNS_HINT
            )
        found[day, asset] = values
    dates = sorted({day for day, _ in found})
    assets = sorted({asset for _, asset in found})
    if len(dates) < 2:
        raise ConfigError(f"{name} must have at least 2 dates, got {len(dates)}", hint=COLUMNS_HINT)
    for day in dates:
        for asset in assets:
            if (day, asset) not in found:
                raise ConfigError(
                    f"{name} has no row for {asset} at {day}",
                    hint="every asset needs every date: drop it, or fill the gap",
                )
    flat = [found[day, asset] for day in dates for asset in assets]
    table = np.asarray(flat, np.float64).reshape(len(dates), len(assets), len(columns))
    return np.asarray(dates), assets, table


# ---- synthetic ---------------------------------------------------------------------------------


def synthetic_market(
    *,
    rows: int = 1500,
    assets: int = 4,
    features: int = 3,
    signal: float = 0.0,
    seed: int = 0,
) -> Market:
    """Assets in calm and stormy regimes. `signal` is the share of a day's move known before.

    The first feature after the return tells that share of tomorrow's return; the others are noise.
    """
    if rows < 2 or assets < 1 or features < 2:
        raise ConfigError(
            "a market must have at least 2 rows, 1 asset and 2 features, "
            f"got {rows}, {assets} and {features}",
            hint="the day's return is the first feature",
        )
    rng = np.random.default_rng((seed, 0x3A4E7))
    stormy = np.zeros(rows, bool)
    for row in range(1, rows):
        stormy[row] = stormy[row - 1] ^ (rng.random() < (0.05 if stormy[row - 1] else 0.01))
    deviation = np.where(stormy, 0.025, 0.01)[:, None]
    moves = rng.standard_normal((rows, assets)) * deviation + np.where(stormy, -3e-4, 3e-4)[:, None]
    close = 100 * np.exp(np.cumsum(moves, axis=0))
    known = np.zeros((rows, assets))
    known[:-1] = moves[1:] / deviation[1:]
    noise = rng.standard_normal((rows, assets))
    columns = {"hint": signal * known + np.sqrt(max(1 - signal**2, 0)) * noise}
    for number in range(features - 2):
        columns[f"noise{number}"] = rng.standard_normal((rows, assets))
    dates = np.datetime64("2015-01-01", "s") + np.arange(rows) * np.timedelta64(86_400, "s")
    return make_market(dates, [f"A{number:03d}" for number in range(assets)], close, columns)
