"""Manifests that were changed by somebody who knows the format: checksums are right."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ramledger.replay.checkpoints.saves import manifest_name


def body_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes().partition(b"\n")[2])
    return found


def with_text(path: Path, text: bytes) -> None:
    head = json.loads(path.read_bytes().partition(b"\n")[0])
    head |= {"bytes": len(text), "crc32": zlib.crc32(text)}
    path.write_bytes(json.dumps(head).encode() + b"\n" + text + b"\n")


def rewritten(folder: Path, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / manifest_name(number)
    body = body_of(path)
    change(body)
    with_text(path, json.dumps(body).encode())
