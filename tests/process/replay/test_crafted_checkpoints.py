"""Mutated checkpoints by the hundred in a process of their own: no crash, little memory."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger import CheckpointError
from ramledger.replay import Frames, Prioritized, ReplayBuffer, Schema, inspect, verify
from tests.support.crafted_checkpoints import with_text
from tests.support.numbered_transitions import add, files_of, filled
from tests.support.places import ROOT

FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "2.5"))  # of each kind of compression


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two saves, the second of which is changed."""
    buffer = filled(300, 400, prioritized=Prioritized())
    buffer.save(tmp_path)
    add(buffer, 300, 60)
    buffer.save(tmp_path)
    return tmp_path


# ---- any change at all ---------------------------------------------------------------------------

FUZZ = """
import resource, sys
from pathlib import Path
from tests.process.replay.test_crafted_checkpoints import fuzz
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.RLIM_INFINITY))
fuzz(Path(sys.argv[1]))
"""


def mutations(rng: random.Random, body: Any) -> Iterator[None]:
    """Change one or two places of a document in place, again and again."""
    odd: list[Any] = [None, True, -1, 0, 1, 2**31, 2**63, 2**70, 10**40, 1.5, 1e300, "", "x",
                      "zlib", "rows", [], {}, [[]], {"a": 1}]  # fmt: skip
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        for key, inner in items:
            places.append((value, key))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(body)
    while True:
        undo = []
        for _ in range(rng.choice((1, 1, 2))):
            owner, key = rng.choice(places)
            undo.append((owner, key, owner[key]))
            others = [o[k] for o, k in rng.sample(places, 3)]
            owner[key] = rng.choice([*odd, *others, *others])
        yield
        for owner, key, value in reversed(undo):
            owner[key] = value


def peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def fuzz(folder: Path) -> None:
    """Load, verify and inspect changed saves; prints how many loaded and how many were refused."""
    rng = random.Random(int(os.environ.get("FUZZ_SEED", "11")))
    (path,) = folder.glob("save-*.json")
    segments = [(found, found.read_bytes()) for found in files_of(folder) if found != path]
    text = path.read_bytes()
    body = json.loads(text.partition(b"\n")[2])
    counts = {"loaded": 0, "refused": 0}
    ReplayBuffer.load(folder)
    before, deadline = peak_bytes(), time.monotonic() + FUZZ_SECONDS
    changes = mutations(rng, body)
    number = 0
    while time.monotonic() < deadline or number < 200:
        number += 1
        if number % 3:
            next(changes)
            try:
                with_text(path, json.dumps(body).encode())
            except (ValueError, RecursionError):  # a document that contains itself
                continue
        else:
            path.write_bytes(text)
            target, data = rng.choice([*segments, (path, text)])
            target.write_bytes(damaged(rng, data))
        try:
            loaded = ReplayBuffer.load(folder, lazy=bool(number % 2))
            loaded.sample(4) if len(loaded) else None
            counts["loaded"] += 1
        except CheckpointError as error:
            assert error.hint, error.message
            counts["refused"] += 1
        verify(folder)
        try:
            inspect(folder)
        except CheckpointError as error:
            assert error.hint, error.message
        for found, data in segments:
            found.write_bytes(data)
    print(counts["loaded"], counts["refused"], peak_bytes() - before)


def damaged(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + data[rng.randrange(len(data)) :]
    return data + rng.randbytes(20)


@pytest.mark.parametrize("compress", ["", "zlib", "zstd", "lz4"])
def test_changed_saves_are_refused_and_take_no_memory(tmp_path: Path, compress: str) -> None:
    if compress in ("zstd", "lz4"):
        pytest.importorskip("zstandard" if compress == "zstd" else "lz4")
    schema = Schema(Frames((50,), "uint8", 3))
    buffer = ReplayBuffer(schema, 200, seed=0, prioritized=Prioritized(), n_envs=2)
    frames = np.zeros((3, 50), np.uint8)
    for step in range(150):
        later = np.concatenate([frames[1:], np.full((1, 50), step % 7, np.uint8)])
        for env in range(2):
            buffer.add(frames, 0.0, step, later, step % 20 == 19, env=env)
        frames = later
    buffer.save(tmp_path, compress=compress)
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(tmp_path)],
        capture_output=True, text=True, cwd=ROOT, timeout=120 + 2 * FUZZ_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    loaded, refused, peak = map(int, done.stdout.split())
    assert refused > 50 and loaded > 5
    assert peak < 48 << 20
