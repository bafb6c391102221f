"""A checkpoint for other tools: npz, HDF5 or Parquet, a chunk of transitions at a time."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ramledger.durable_files import new_token
from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.storage.backing import Array

CHUNK_BYTES = 16 << 20
FORMATS = (".npz", ".h5", ".hdf5", ".parquet")


def export(
    buffer: ReplayBuffer, target: str | os.PathLike[str], *, overwrite: bool = False
) -> dict[str, tuple[int, ...]]:
    """Write every stored transition, environment by environment, oldest first; what was written.

    Columns: `observations`, `actions`, `rewards`, `next_observations`, `terminations`,
    `truncations`, `environments`; Dict observations as `observations/<key>`. Whole or not at all.
    """
    path = Path(target)
    if path.suffix not in FORMATS:
        raise ConfigError(
            f"unknown format {path.suffix!r}", hint=f"end the name in {', '.join(FORMATS)}"
        )
    if path.exists() and not overwrite:
        raise CheckpointError(
            f"{path} exists", hint="choose another name, or overwrite with --force"
        )
    if not len(buffer):
        raise CheckpointError(
            "the checkpoint is empty: nothing to export", hint="save a buffer that is not empty"
        )
    write = {".npz": _write_npz, ".parquet": _write_parquet}.get(path.suffix, _write_hdf5)
    draft = path.with_name(f".{path.name}.{new_token()}.part")
    columns = _Columns(buffer)
    try:
        write(draft, columns)
        os.replace(draft, path)
    except OSError as error:
        raise CheckpointError(
            f"cannot write {path}: {error.strerror or error}",
            hint="free disk space or choose another place; nothing was written",
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink()
    return {name: (len(columns.places), *array.shape[1:]) for name, array in columns.first.items()}


class _Columns:
    """The transitions as columns, read in chunks that keep memory bounded."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        self.places = buffer.ordered()
        self._buffer = buffer
        self.first = self.chunk(0, 1)
        item_bytes = sum(array.nbytes for array in self.first.values())
        self.step = max(1, CHUNK_BYTES // item_bytes)

    def chunk(self, begin: int, end: int) -> dict[str, Array]:
        places = self.places[begin:end]
        batch = self._buffer.get(places)
        found: dict[str, Any] = {}
        for name, value in (("observations", batch.obs), ("next_observations", batch.next_obs)):
            if isinstance(value, dict):
                found |= {f"{name}/{key}": array for key, array in value.items()}
            else:
                found[name] = value
        found |= {"actions": batch.action, "rewards": batch.reward}
        found |= {"terminations": batch.terminated, "truncations": batch.truncated}
        return found | batch.extra | {"environments": places % self._buffer.n_envs}

    def __iter__(self) -> Iterator[tuple[int, dict[str, Array]]]:
        for begin in range(0, len(self.places), self.step):
            yield begin, self.chunk(begin, begin + self.step)


def _write_npz(path: Path, columns: _Columns) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, first in columns.first.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                shape = (len(columns.places), *first.shape[1:])
                header = {
                    "descr": np.lib.format.dtype_to_descr(first.dtype),
                    "fortran_order": False,
                    "shape": shape,
                }
                np.lib.format.write_array_header_2_0(member, header)
                for _, chunk in columns:
                    member.write(np.ascontiguousarray(chunk[name]).tobytes())


def _write_hdf5(path: Path, columns: _Columns) -> None:
    h5py = _imported("h5py", "HDF5")
    with h5py.File(path, "w") as file:
        for name, first in columns.first.items():
            shape = (len(columns.places), *first.shape[1:])
            file.create_dataset(name, shape=shape, dtype=first.dtype)
        for begin, chunk in columns:
            for name, array in chunk.items():
                file[name][begin : begin + len(array)] = array


def _write_parquet(path: Path, columns: _Columns) -> None:
    arrow, parquet = _imported("pyarrow", "Parquet"), _imported("pyarrow.parquet", "Parquet")
    writer = None
    try:
        for _, chunk in columns:
            table = arrow.table({name: _arrow_column(arrow, a) for name, a in chunk.items()})
            if writer is None:
                writer = parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _arrow_column(arrow: Any, array: Array) -> Any:
    """Numbers as they are, arrays as lists of their flat length."""
    flat = arrow.array(np.ascontiguousarray(array).reshape(-1))
    if array.ndim == 1:
        return flat
    return arrow.FixedSizeListArray.from_arrays(flat, int(np.prod(array.shape[1:])))


def _imported(module: str, what: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ConfigError(
            f"{what} needs {package}, which is not installed",
            hint=f"pip install 'ramledger[{what.lower()}]', or export to .npz",
        ) from None
