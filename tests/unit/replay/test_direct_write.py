"""Files written past the page cache hold what was appended, also where that is not possible."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger.replay.checkpoints.direct_write import ALIGN_BYTES, BUFFER_BYTES, DirectWriter

SIZES = (
    1, ALIGN_BYTES, ALIGN_BYTES + 1, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1,
    5 * BUFFER_BYTES + 77,
)  # fmt: skip


def write_all(folder: Path) -> None:
    """One file a size, appended in uneven pieces that change right afterwards."""
    writer = DirectWriter()
    for size in SIZES:
        data = content(size)
        writer.open(folder / str(size))
        for begin in range(0, size, 1_234_567):
            piece = data[begin : begin + 1_234_567].copy()
            writer.append(piece)
            piece[:] = 0
        writer.finish()
    writer.close()


def content(size: int) -> Any:
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)


def assert_written(folder: Path) -> None:
    for size in SIZES:
        assert (folder / str(size)).read_bytes() == content(size).tobytes()


def test_files_hold_what_was_appended(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert_written(tmp_path)


def test_a_file_system_that_opens_no_file_that_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def refusing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_DIRECT:
            really_open(path, flags & ~os.O_DIRECT, *rest, **more)
            raise OSError(errno.EINVAL, "Invalid argument")
        return really_open(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refusing)
    write_all(tmp_path)
    monkeypatch.undo()
    assert_written(tmp_path)


def test_a_file_system_that_writes_none_and_little_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_write = os.pwrite

    def refusing(fd: int, data: Any, offset: int) -> int:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return really_write(fd, data[:1_000_001], offset)

    monkeypatch.setattr(os, "pwrite", refusing)
    write_all(tmp_path)
    assert_written(tmp_path)


def test_an_error_of_the_disk_is_raised_and_every_file_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: Any, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    before = os.listdir("/proc/self/fd")
    writer = DirectWriter()
    writer.open(tmp_path / "file")
    with pytest.raises(OSError, match="No space left"):
        for _ in range(4):
            writer.append(content(BUFFER_BYTES))
    writer.abandon()
    assert os.listdir("/proc/self/fd") == before
