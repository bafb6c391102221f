"""Compressed rows: the same batches from a fraction of the memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger.replay import Field, Frames, ReplayBuffer, Schema
from tests.support.naive_buffer import same

SCHEMA = Schema(Frames((20, 20), "uint8", 4), action=Field((2,)))


def both(codec: str, steps: int, capacity: int) -> tuple[ReplayBuffer, ReplayBuffer]:
    """The same slowly changing frames in a raw and in a compressed buffer."""
    raw = ReplayBuffer(SCHEMA, capacity, seed=3)
    packed = ReplayBuffer(SCHEMA, capacity, seed=3, compress=codec)
    rng = np.random.default_rng(0)
    frames = np.zeros((steps + 4, 20, 20), np.uint8)
    for at in range(1, len(frames)):
        frames[at] = frames[at - 1]
        frames[at, at % 20, rng.integers(0, 20)] = rng.integers(0, 256)
    action = np.zeros(2, np.float32)
    for at in range(steps):
        for buffer in (raw, packed):
            buffer.add(frames[at : at + 4], action, at, frames[at + 1 : at + 5], at % 90 == 89)
    return raw, packed


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
@pytest.mark.parametrize("steps", [300, 2500])
def test_batches_are_the_same_and_memory_is_less(codec: str, steps: int) -> None:
    if codec != "zlib":
        pytest.importorskip("zstandard" if codec == "zstd" else "lz4")
    raw, packed = both(codec, steps, 1000)
    for arguments in ({}, {"n_step": 3}):
        mine, theirs = packed.sample(64, **arguments), raw.sample(64, **arguments)  # type: ignore[arg-type]
        assert same(mine.obs, theirs.obs)
        assert same(mine.next_obs, theirs.next_obs)
    if steps > 1000:
        # rows of 402 B become some 100, and the steps stay as they are
        assert packed.used_bytes < 0.5 * raw.used_bytes


@pytest.mark.parametrize("lazy", [False, True])
def test_a_checkpoint_of_compressed_rows(tmp_path: Path, lazy: bool) -> None:
    raw, packed = both("zlib", 1600, 1000)
    packed.save(tmp_path)
    loaded = ReplayBuffer.load(tmp_path, lazy=lazy)
    assert loaded.compress == "zlib"
    assert loaded.used_bytes < 0.6 * raw.used_bytes
    assert same(loaded.sample(100).obs, raw.sample(100).obs)


def test_training_goes_on_while_compressed_rows_are_saved(tmp_path: Path) -> None:
    raw, packed = both("zlib", 1200, 1000)
    wanted: Any = raw.get(raw.ordered())
    job = packed.save_in_background(tmp_path)
    frame = np.zeros((4, 20, 20), np.uint8)
    for at in range(1500):
        packed.add(frame, np.zeros(2, np.float32), at, frame, at % 40 == 0)
    job.wait()
    loaded = ReplayBuffer.load(tmp_path)
    found = loaded.get(loaded.ordered())
    assert same(found.obs, wanted.obs)
    assert same(found.next_obs, wanted.next_obs)
