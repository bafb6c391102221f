"""The saves in a folder: found, read, written and removed.

`save-00000012.json` is a manifest; the save counts when it is there. Nothing is removed that no
manifest of ours names and that no writer of ours began.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ramledger.durable_files import (
    draft_of,
    new_token,
    read_head,
    read_whole,
    sync_folder,
)
from ramledger.errors import CheckpointError
from ramledger.replay.checkpoints.manifest import (
    HEAD_BYTES,
    READABLE,
    SEGMENT_SUFFIX,
    Manifest,
    NewerFormatError,
)
from ramledger.replay.checkpoints.manifest_check import check_manifest
from ramledger.replay.checkpoints.segment import is_written_by

LAST_NUMBER = 99_999_999
_MANIFEST = re.compile(r"save-([0-9]{8})\.json")
_DRAFT = re.compile(r"save-[0-9]{8}-[0-9a-f]{16}\.tmp")
_BEGINNINGS = tuple(f'{{"format": "{name}"'.encode() for name in READABLE)


def manifest_name(number: int) -> str:
    return f"save-{number:08d}.json"


def number_of(name: str) -> int | None:
    """The number of the save that a manifest of this name is for; None for other names."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def numbers_in(folder: Path) -> list[int]:
    """Numbers of the saves in a folder, newest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(
            f"cannot read {folder}: {error.strerror}", hint="name a folder that you may read"
        ) from None
    return sorted((int(m[1]) for m in map(_MANIFEST.fullmatch, names) if m), reverse=True)


def read_manifest(folder: Path, number: int) -> Manifest:
    """The checked manifest of a save; its blocks may still be damaged."""
    path = folder / manifest_name(number)
    return checked_manifest(read_whole(path), str(path), number)


def checked_manifest(data: bytes, name: str, number: int | None = None) -> Manifest:
    """A checked manifest from its bytes."""
    manifest = Manifest.decoded(data, name, number)
    check_manifest(manifest, name)
    return manifest


def newest_manifest(folder: Path) -> Manifest:
    """The newest intact manifest of a folder; its blocks may still be damaged."""
    numbers = numbers_in(folder)
    for number in numbers:
        with suppress(CheckpointError):
            return read_manifest(folder, number)
    if numbers:
        return read_manifest(folder, numbers[0])
    raise CheckpointError(
        f"no checkpoint in {folder}", hint="name the folder that `ReplayBuffer.save` wrote to"
    )


def read_all(folder: Path) -> tuple[list[Manifest], list[str]]:
    """Every manifest that can be read, newest first, and what later versions have written."""
    found: list[Manifest] = []
    newer: list[str] = []
    for number in numbers_in(folder):
        try:
            found.append(read_manifest(folder, number))
        except NewerFormatError as error:
            newer.append(error.message)
        except CheckpointError:  # damaged: it names nothing
            continue
    return found, newer


def write_manifest(folder: Path, manifest: Manifest) -> int:
    """Write, fsync, rename, fsync the folder: after this the save is the newest. Its bytes."""
    try:
        data = manifest.encoded()
    except ValueError as error:
        raise CheckpointError(
            f"a setting of the buffer cannot be saved: {error}", hint="use finite numbers"
        ) from None
    return write_encoded(folder, manifest.number, data)


def write_encoded(folder: Path, number: int, data: bytes) -> int:
    """The same for a manifest that is bytes already."""
    name = manifest_name(number)
    draft = folder / f"save-{number:08d}-{new_token()}.tmp"
    with draft_of(folder / name, draft) as file:
        file.write(data)
    sync_folder(folder)
    return len(data)


def remove(folder: Path, dropped: Iterable[Manifest], kept: Iterable[Manifest]) -> None:
    """Remove saves, and the segments that only they name; what cannot be removed stays."""
    needed: set[str] = set().union(*(manifest.segments for manifest in kept))
    gone = list(dropped)
    names = [manifest_name(manifest.number) for manifest in gone]
    unneeded: set[str] = set().union(*(manifest.segments for manifest in gone))
    for name in (*names, *sorted(unneeded - needed)):
        with suppress(OSError):
            os.unlink(folder / name)


def remove_leftovers(folder: Path, buffer_id: str, known: Iterable[Manifest]) -> None:
    """Remove what writers of this buffer that were killed left of saves that never came to be."""
    needed: set[str] = set().union(*(manifest.segments for manifest in known))
    for name in os.listdir(folder):
        path = folder / name
        is_segment = name.endswith(SEGMENT_SUFFIX) and name not in needed
        if (is_segment and is_written_by(path, buffer_id)) or _is_draft(path):
            with suppress(OSError):
                os.unlink(path)


def _is_draft(path: Path) -> bool:
    """Whether a file is a manifest that was not completed, by its name and its first bytes."""
    if _DRAFT.fullmatch(path.name) is None:
        return False
    longest = max(map(len, _BEGINNINGS))
    try:
        head = read_head(path, longest)
    except CheckpointError:
        return False
    return any(whole.startswith(head) for whole in _BEGINNINGS)


def head_of(folder: Path, number: int) -> bytes:
    """The first line of a manifest, which has its checksum; nothing if it cannot be read."""
    try:
        return read_head(folder / manifest_name(number), HEAD_BYTES).partition(b"\n")[0]
    except CheckpointError:
        return b""
