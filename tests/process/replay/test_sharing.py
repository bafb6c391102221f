"""Real processes sample from one buffer while it is filled, and mapped files hold the rows."""

import multiprocessing
import os
import queue
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger import CheckpointError, ConfigError
from ramledger.replay import Field, Folder, Prioritized, ReplayBuffer, Schema, TableWindow
from ramledger.replay.sharing import SharedReader, SharedReplayBuffer
from tests.support.numbered_transitions import SCHEMA, add, assert_true, filled

WIDTH = 50
CAPACITY = 300


def read(handle: Any, answers: Any) -> None:
    """Sample until the ring has moved on twice; how many batches were not whole."""
    reader = SharedReader(handle, seed=os.getpid())
    torn, batches, newest = 0, 0, 0.0
    deadline = time.monotonic() + 60
    while (batches < 200 or newest < 3 * CAPACITY) and time.monotonic() < deadline:
        batch = reader.sample(32)
        wanted = batch.reward[:, None]
        torn += not (np.asarray(batch.obs) == wanted).all()
        torn += not (np.asarray(batch.next_obs) == wanted + 1).all()
        batches, newest = batches + 1, max(newest, float(batch.reward.max()))
    answers.put((torn, len(reader), newest))


def test_other_processes_see_whole_transitions() -> None:
    context = multiprocessing.get_context("spawn")
    buffer = SharedReplayBuffer(Schema(Field((WIDTH,))), CAPACITY)
    row = np.zeros(WIDTH, np.float32)
    for at in range(CAPACITY):
        buffer.add(row + at, 0.0, at, row + at + 1, at % 70 == 0)
    answers = context.Queue()
    readers = [context.Process(target=read, args=(buffer.handle(), answers)) for _ in range(2)]
    for process in readers:
        process.start()
    at = CAPACITY
    found: list[Any] = []
    deadline = time.monotonic() + 120
    while len(found) < len(readers) and time.monotonic() < deadline:
        for _ in range(50):
            buffer.add(row + at, 0.0, at, row + at + 1, at % 70 == 0)
            at += 1
        with suppress(queue.Empty):
            found.append(answers.get(timeout=0.001))
    for process in readers:
        process.join()
        assert process.exitcode == 0
    buffer.close()
    assert [(torn, size) for torn, size, _ in found] == [(0, CAPACITY)] * 2
    # the ring moved on under their hands
    assert all(newest >= 3 * CAPACITY for _, _, newest in found)


def test_a_shared_buffer_says_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot have compression"):
        SharedReplayBuffer(SCHEMA, 10, compress="zlib")
    with pytest.raises(ConfigError, match="another backing"):
        SharedReplayBuffer(SCHEMA, 10, backing=Folder(tmp_path / "rows"))
    with pytest.raises(ConfigError, match="lazily"):
        SharedReplayBuffer.load(tmp_path, lazy=True)


def prefer(handle: Any, answers: Any) -> None:
    """Sample windows by priority, then ask for one transition alone."""
    reader = SharedReader(handle, seed=1)
    first = reader.sample(64)
    reader.update_priorities(np.arange(20), np.where(np.arange(20) == 7, 1e9, 0.0))
    later = reader.sample(64)
    answers.put((np.unique(first.index).tolist(), np.asarray(first.obs), first.index,
                 np.unique(later.index).tolist()))  # fmt: skip


def test_priorities_and_tables_are_shared() -> None:
    context = multiprocessing.get_context("spawn")
    table = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    schema = Schema(TableWindow("market", 5))
    buffer = SharedReplayBuffer(
        schema, 20, tables={"market": table}, prioritized=Prioritized(), seed=0
    )
    try:
        for at in range(20):
            buffer.add(at + 4, 0.0, at, at + 5, False)
        answers = context.Queue()
        process = context.Process(target=prefer, args=(buffer.handle(), answers))
        process.start()
        all_of_them, windows, index, preferred = answers.get(timeout=100)
        process.join()
        assert process.exitcode == 0
        assert all_of_them == list(range(20))
        for window, at in zip(windows, index, strict=True):
            assert np.array_equal(window, table[at : at + 5])
        assert preferred == [7]
        # what the reader preferred, the writer prefers, and new ones are as important
        assert np.unique(buffer.sample(64).index).tolist() == [7]
        buffer.add(25, 0.0, 1.0, 26, False)
        assert np.unique(buffer.sample(64).index).tolist() == [0, 7]
    finally:
        buffer.close()


def test_a_shared_buffer_is_loaded_for_its_readers(tmp_path: Path) -> None:
    plain = filled(2000, prioritized=Prioritized())
    plain.save(tmp_path)
    shared = SharedReplayBuffer.load(tmp_path)
    try:
        assert_true(shared)
        reader = SharedReader(shared.handle(), seed=0)
        assert len(reader) == 2000
        wanted, found = plain.sample(32), shared.sample(32)
        assert np.array_equal(wanted.index, found.index)
        batch = reader.sample(32)
        assert np.array_equal(batch.reward, batch.index.astype(np.float32))
    finally:
        shared.close()


def test_a_reader_of_a_buffer_that_was_closed() -> None:
    buffer = SharedReplayBuffer(SCHEMA, 10)
    handle = buffer.handle()
    buffer.close()
    assert not Path(handle.folder).exists()
    with pytest.raises(ConfigError, match="cannot open"):
        SharedReader(handle)


def test_rows_in_mapped_files(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "rows")
    buffer = ReplayBuffer(SCHEMA, 3000, seed=1, backing=folder)
    add(buffer, 0, 5000)
    assert_true(buffer)
    assert {path.name for path in (tmp_path / "rows").iterdir()} >= {"obs.rows", "action.rows"}
    with pytest.raises(CheckpointError, match="another buffer may be using it"):
        ReplayBuffer(SCHEMA, 3000, backing=folder)
    buffer.save(tmp_path / "saves")
    loaded = ReplayBuffer.load(tmp_path / "saves", backing=Folder(tmp_path / "again"))
    assert_true(loaded)
    folder.remove()
    assert_true(buffer)  # what is mapped stays until it goes


def test_mapped_files_are_no_private_memory(tmp_path: Path) -> None:
    """More rows than may be allocated: pages of files are not in the limit of data."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    buffer = ReplayBuffer(
        Schema(Field((1 << 16,), "uint8")), 2000, backing=Folder(tmp_path / "rows")
    )
    status = Path("/proc/self/status").read_text()
    used = next(int(line.split()[1]) << 10 for line in status.splitlines() if "VmData" in line)
    resource.setrlimit(resource.RLIMIT_DATA, (used + (40 << 20), hard))
    try:
        row = np.arange(1 << 16, dtype=np.uint8)
        for _ in range(2000):
            buffer.add(row, 0.0, 0.0, row, False)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    assert buffer.used_bytes > 120 << 20
    assert (np.asarray(buffer.sample(4).obs) == row).all()
