"""A checkpoint of the whole trainer: raw tensors with checksums and JSON, beside the buffer's own.

A state file is durable before the buffer's save commits, and carries that buffer's fingerprint:
whichever save of the buffer is the newest whole one, its trainer is there.
"""

import json
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from torch import Tensor

from ramledger import CheckpointError
from ramledger.durable_files import (
    draft_of,
    new_token,
    opened,
    read_head,
    shown,
    sync_folder,
    unreadable,
)
from ramledger.replay import Save, saves

FORMAT = "ramledger.train/1"
_HEAD = b"ramledger.state\n".ljust(64)  # tensors begin after it
_TAIL = struct.Struct("<QI4s")  # bytes and crc32 of the index, then the mark
_MARK = b"RLT1"
_STATE = re.compile(r"state-([0-9]{8})\.tensors")
_DRAFT = re.compile(r"state-[0-9]{8}-[0-9a-f]{16}\.tmp")
_PIECE_BYTES = 1 << 20
REPLAY = "replay"

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Crc = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF)]


class TensorPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a tensor's bytes are in a state file."""

    name: str
    dtype: str
    shape: list[_Count]
    offset: _Count
    crc32: _Crc


class State(msgspec.Struct, frozen=True):
    """Everything of a trainer besides tensors and the buffer."""

    config: dict[str, Any]
    generation: _Count
    phase: Literal["evaluate", "train", "evolve"]
    updates_done: _Count
    updates: tuple[_Count, _Count]
    rates: tuple[list[float], list[float]]
    fitness: list[float]
    best_score: float | None
    loss: float
    history: list[dict[str, Any]]
    replay: str


class Index(msgspec.Struct, frozen=True):
    """What a state file holds."""

    format: Literal["ramledger.train/1"]
    state: State
    tensors: list[TensorPlace]
    end: _Count = 0  # where the tensors end and this begins; computed, not stored


@dataclass(frozen=True, slots=True)
class Candidate:
    """A save of the buffer and the state file that belongs to it."""

    save: Save
    path: Path
    index: Index


def numbers_in(folder: Path) -> list[int]:
    """Numbers of the state files in a folder, newest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted((int(m[1]) for m in map(_STATE.fullmatch, names) if m), reverse=True)


def path_of(folder: Path, number: int) -> Path:
    return folder / f"state-{number:08d}.tensors"


# ---- writing -----------------------------------------------------------------------------------


def write_state(
    folder: Path, tensors: Iterable[tuple[str, Tensor]], state: Mapping[str, Any], keep: int
) -> Path:
    """Stream tensors from where they are, then an index; the file appears whole or not at all."""
    numbers = numbers_in(folder)
    number = numbers[0] + 1 if numbers else 1
    target = path_of(folder, number)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_drafts(folder)
        with draft_of(target, folder / f"state-{number:08d}-{new_token()}.tmp") as file:
            file.write(_HEAD)
            index = []
            for name, tensor in tensors:
                data = _bytes_of(tensor)
                index.append([name, _dtype(tensor), list(tensor.shape), file.tell(),
                              zlib.crc32(data)])  # fmt: skip
                file.write(data)
            text = json.dumps({"format": FORMAT, "state": state, "tensors": index}).encode()
            file.write(text + _TAIL.pack(len(text), zlib.crc32(text), _MARK))
        sync_folder(folder)
    except OSError as error:
        raise CheckpointError(
            f"cannot write to {folder}: {error.strerror}",
            hint="earlier checkpoints are untouched; make room or choose another folder",
        ) from None
    for old in numbers[keep:]:
        # what was not written here, or cannot be read, is not removed
        with suppress(OSError, CheckpointError):
            read_index(path_of(folder, old))
            path_of(folder, old).unlink()
    return target


def _remove_drafts(folder: Path) -> None:
    """Remove what a killed process left, recognized by its name and its first bytes."""
    for name in os.listdir(folder):
        if _DRAFT.fullmatch(name) is not None:
            with suppress(OSError, CheckpointError):
                if read_head(folder / name, len(_HEAD)) in (b"", _HEAD):
                    (folder / name).unlink()


# ---- reading -----------------------------------------------------------------------------------


def read_index(path: Path) -> Index:
    """State and table of contents of a state file; tensors are not read."""
    with os.fdopen(opened(path), "rb") as file:
        try:
            whole = os.fstat(file.fileno()).st_size
            if whole < _TAIL.size:
                raise ValueError("it is cut off")
            file.seek(-_TAIL.size, os.SEEK_END)
            size, crc, mark = _TAIL.unpack(file.read(_TAIL.size))
            if mark != _MARK or size > whole - _TAIL.size:
                raise ValueError("its index is damaged")
            file.seek(-_TAIL.size - size, os.SEEK_END)
            text = file.read(size)
            if zlib.crc32(text) != crc:
                raise ValueError("its index is damaged")
            # numbers that diverged are stored as NaN, which only this decoder reads
            end = whole - _TAIL.size - size
            found = msgspec.structs.replace(msgspec.convert(json.loads(text), Index), end=end)
            _check_places(found)
            return found
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(
                f"cannot read {path}: {shown(error)}", hint="an earlier checkpoint may be intact"
            ) from None


def _check_places(index: Index) -> None:
    """Tensors lie before the index, one after the other."""
    names = {place.name for place in index.tensors}
    offsets = [place.offset for place in index.tensors]
    is_ordered = [*offsets, index.end] == sorted([*offsets, index.end])
    if not names or len(names) != len(offsets) or not is_ordered:
        raise ValueError("tensors outside of the file")


def verify_tensors(path: Path, index: Index) -> None:
    """Read every tensor in pieces and compare its checksum; none is allocated."""
    ends = [*(place.offset for place in index.tensors[1:]), index.end]
    piece = memoryview(bytearray(_PIECE_BYTES))
    with os.fdopen(opened(path), "rb", buffering=0) as file:
        for place, end in zip(index.tensors, ends, strict=True):
            file.seek(place.offset)
            left, checksum = end - place.offset, 0
            while left and (count := _read_into(path, file, piece[:left])):
                checksum = zlib.crc32(piece[:count], checksum)
                left -= count
            if left or checksum != place.crc32:
                raise _damaged(path, place.name)


def read_tensors(path: Path, index: Index, into: Iterable[tuple[str, Tensor]]) -> None:
    """Read in place and verify; nothing is allocated."""
    places = {place.name: place for place in index.tensors}
    with os.fdopen(opened(path), "rb") as file:
        for name, tensor in into:
            place = places.get(name)
            if place is None or (place.dtype, place.shape) != (_dtype(tensor), list(tensor.shape)):
                what = shown(f"{place.dtype}{place.shape}") if place is not None else "nothing"
                raise CheckpointError(
                    f"{path.name} holds {name} as {what}, not {list(tensor.shape)}",
                    hint="it was written with another configuration",
                )
            data = _bytes_of(tensor)
            file.seek(place.offset)
            if _read_into(path, file, data) != len(data) or zlib.crc32(data) != place.crc32:
                raise _damaged(path, name)


def _read_into(path: Path, file: Any, target: memoryview) -> int:
    try:
        count: int = file.readinto(target)
    except OSError as error:
        raise unreadable(path, error.strerror) from None
    return count


def _damaged(path: Path, name: str) -> CheckpointError:
    return CheckpointError(
        f"{path.name} is damaged at {shown(name)}", hint="an earlier checkpoint may be intact"
    )


def candidates(folder: Path, lost: list[str]) -> Iterator[Candidate]:
    """Saves of the buffer with the state that belongs to each, newest first; nothing is loaded.

    What cannot be read, and a save without its state, is skipped and listed in `lost`.
    """
    states: dict[str, tuple[Path, Index]] = {}
    for number in numbers_in(folder):
        try:
            index = read_index(path_of(folder, number))
        except CheckpointError as error:
            lost.append(error.message)
            continue
        states.setdefault(index.state.replay, (path_of(folder, number), index))
    for save in saves(folder / REPLAY):
        if isinstance(save, CheckpointError):
            lost.append(save.message)
            continue
        found = states.get(save.fingerprint)
        if found is None:
            lost.append(f"save {save.number} has no state file")
            continue
        try:
            verify_tensors(*found)
        except CheckpointError as error:
            lost.append(error.message)
            continue
        yield Candidate(save, *found)


def check_state(folder: Path, save: Save) -> None:
    """Raise unless a folder has the state file that belongs to a save, and it is whole."""
    for number in numbers_in(folder):
        index = read_index(path_of(folder, number))
        if index.state.replay == save.fingerprint:
            verify_tensors(path_of(folder, number), index)
            return
    raise CheckpointError(
        f"save {save.number} came without its state file", hint="an earlier one may be intact"
    )


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _bytes_of(tensor: Tensor) -> memoryview:
    """The tensor's own memory."""
    return tensor.numpy().reshape(-1).view("uint8").data
