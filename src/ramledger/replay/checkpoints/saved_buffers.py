"""The saves of a buffer, described by their manifests; no transition is read."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramledger.errors import CheckpointError
from ramledger.replay.checkpoints.manifest import Manifest
from ramledger.replay.checkpoints.manifest_check import check_manifest
from ramledger.replay.checkpoints.saves import numbers_in, read_manifest
from ramledger.replay.schema import Schema


@dataclass(frozen=True, slots=True)
class Save:
    """One save: what the buffer is, and what it takes once it is loaded."""

    number: int
    fingerprint: str  # of the buffer at that moment, as `ReplayBuffer.fingerprint` was then
    schema: Schema
    environments: int
    capacity: int  # in transitions
    loaded_bytes: int


def saves(folder: str | os.PathLike[str]) -> Iterator[Save | CheckpointError]:
    """Every save in a folder, newest first; for one that cannot be read, the error."""
    path = Path(folder)
    for number in numbers_in(path):
        try:
            yield described(read_manifest(path, number))
        except CheckpointError as error:
            yield CheckpointError(f"save {number}: {error.message}", hint=error.hint)


def described(manifest: Manifest) -> Save:
    """The save that a manifest is of."""
    found = check_manifest(manifest, f"save {manifest.number}")
    return Save(
        number=manifest.number,
        fingerprint=fingerprint_of(manifest.state["total_added"], manifest.state["rng"]),
        schema=found.schema,
        environments=found.layout.streams,
        capacity=found.layout.transitions,
        loaded_bytes=found.loaded_bytes,
    )


def fingerprint_of(total_added: int, rng: Mapping[str, Any]) -> str:
    """What was added and drawn so far: two states of one buffer with the same are the same."""
    text = json.dumps([total_added, rng], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
