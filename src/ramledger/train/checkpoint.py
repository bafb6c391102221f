"""A checkpoint of the whole trainer: raw tensors with checksums and JSON, beside the buffer's own.

A state file is durable before the buffer's save commits, and carries that buffer's fingerprint:
whichever save of the buffer is the newest whole one, its trainer is there.
"""

import hashlib
import json
import os
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from ramledger.errors import CheckpointError
from ramledger.replay import ReplayBuffer

FORMAT = "ramledger.train/1"
_TAIL = struct.Struct("<QI4s")  # bytes and crc32 of the index, then the mark
_MARK = b"RLT1"
_STATE = re.compile(r"state-(\d{8})\.tensors")
REPLAY = "replay"


def fingerprint(buffer: ReplayBuffer) -> str:
    """What was added and drawn so far: two states of one buffer with the same are the same."""
    text = json.dumps([buffer.total_added, buffer.rng.bit_generator.state], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def numbers_in(folder: Path) -> list[int]:
    """Numbers of the state files in a folder, newest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted((int(m[1]) for m in map(_STATE.fullmatch, names) if m), reverse=True)


def path_of(folder: Path, number: int) -> Path:
    return folder / f"state-{number:08d}.tensors"


def write_state(
    folder: Path, tensors: Iterable[tuple[str, Tensor]], state: Mapping[str, Any], keep: int
) -> Path:
    """Stream tensors from where they are, then an index; the file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = numbers_in(folder)
    target = path_of(folder, numbers[0] + 1 if numbers else 1)
    draft = target.with_suffix(".tmp")
    try:
        with draft.open("wb") as file:
            index = []
            for name, tensor in tensors:
                data = _bytes_of(tensor)
                index.append([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape),
                              file.tell(), zlib.crc32(data)])  # fmt: skip
                file.write(data)
            body = {"format": FORMAT, "state": state, "tensors": index}
            text = json.dumps(body).encode()
            file.write(text + _TAIL.pack(len(text), zlib.crc32(text), _MARK))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(target)
        _sync(folder)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise CheckpointError(
            f"cannot write to {folder}: {error.strerror}",
            hint="earlier checkpoints are untouched; make room or choose another folder",
        ) from None
    for number in numbers[keep:]:
        with suppress(OSError):
            path_of(folder, number).unlink()
    return target


def read_index(path: Path) -> dict[str, Any]:
    """State and table of contents of a state file; tensors are not read."""
    try:
        with path.open("rb") as file:
            file.seek(-_TAIL.size, os.SEEK_END)
            size, crc, mark = _TAIL.unpack(file.read(_TAIL.size))
            file.seek(-_TAIL.size - size, os.SEEK_END)
            text = file.read(size)
        if mark != _MARK or zlib.crc32(text) != crc:
            raise ValueError("its index is damaged")
        found: dict[str, Any] = json.loads(text)
        if found.get("format") != FORMAT:
            raise ValueError(f"format {found.get('format')!r}, this version reads {FORMAT!r}")
        return found
    except (OSError, ValueError, struct.error) as error:
        raise CheckpointError(
            f"cannot read {path}: {error}", hint="an earlier checkpoint may be whole"
        ) from None


def read_tensors(path: Path, index: Mapping[str, Any], into: Iterable[tuple[str, Tensor]]) -> None:
    """Read in place and verify; nothing is allocated."""
    places = {name: entry for name, *entry in index["tensors"]}
    with path.open("rb") as file:
        for name, tensor in into:
            dtype, shape, offset, crc = places.get(name, ("", [], 0, 0))
            if shape != list(tensor.shape) or dtype != str(tensor.dtype).removeprefix("torch."):
                raise CheckpointError(
                    f"{path.name} holds {name} as {dtype}{shape}, not {list(tensor.shape)}",
                    hint="it was written with another configuration",
                )
            data = _bytes_of(tensor)
            file.seek(offset)
            if file.readinto(data) != len(data) or zlib.crc32(data) != crc:
                raise CheckpointError(
                    f"{path.name} is damaged at {name}", hint="an earlier checkpoint may be whole"
                )


def newest_state(folder: Path, buffer: ReplayBuffer | None = None) -> tuple[Path, dict[str, Any]]:
    """The newest state file that reads, and belongs to this state of the buffer."""
    wanted = fingerprint(buffer) if buffer is not None else None
    damaged: list[str] = []
    for number in numbers_in(folder):
        try:
            index = read_index(path_of(folder, number))
        except CheckpointError as error:
            damaged.append(error.message)
            continue
        if wanted is None or index["state"]["replay"] == wanted:
            return path_of(folder, number), index
    raise CheckpointError(
        "; ".join([f"no checkpoint of a training run in {folder}", *damaged]),
        hint="name the folder that `ramledger train --out` wrote to",
    )


def _bytes_of(tensor: Tensor) -> memoryview:
    """The tensor's own memory."""
    return tensor.numpy().reshape(-1).view("uint8").data


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
