"""/dev/shm is shared with every program: what counts as the run's own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from ramledger.recorder.run_shm import RunSharedMemory

pytestmark = pytest.mark.serial  # other tests use /dev/shm, too

MIB = 1 << 20
SIZE = 8 * MIB
HOLDER = f"""
import sys
import tempfile
from multiprocessing import resource_tracker, shared_memory
segment = shared_memory.SharedMemory(create=True, size={SIZE})
resource_tracker.unregister(segment._name, "shared_memory")
segment.buf[:] = b"x" * {SIZE}
print(segment.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def stranger() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        yield process, name
        process.kill()
    Path("/dev/shm", name).unlink(missing_ok=True)


def own_segment() -> shared_memory.SharedMemory:
    segment = shared_memory.SharedMemory(create=True, size=SIZE)
    assert segment.buf is not None
    segment.buf[:] = b"y" * SIZE
    return segment


def test_a_segment_of_this_run_counts() -> None:
    shm = RunSharedMemory()
    before = shm.size_bytes([os.getpid()], 0)
    segment = own_segment()
    try:
        assert shm.size_bytes([os.getpid()], 0) - before >= 0.9 * SIZE
    finally:
        segment.close()
        segment.unlink()


def test_one_that_nobody_maps_any_more_counts() -> None:
    shm = RunSharedMemory()
    before = shm.size_bytes([os.getpid()], 0)
    segment = own_segment()
    segment.close()
    try:
        assert shm.size_bytes([os.getpid()], 0) - before >= 0.9 * SIZE
    finally:
        segment.unlink()


def test_what_another_program_maps_does_not(
    stranger: tuple[subprocess.Popen[str], str],
) -> None:
    process, _ = stranger
    theirs = RunSharedMemory().size_bytes([process.pid], 0)
    ours = RunSharedMemory().size_bytes([os.getpid()], 0)
    assert theirs - ours >= 0.9 * SIZE


def test_what_another_program_makes_later_does_not(request: pytest.FixtureRequest) -> None:
    shm = RunSharedMemory()
    before = shm.size_bytes([os.getpid()], 0)
    request.getfixturevalue("stranger")
    assert shm.size_bytes([os.getpid()], 0) - before < 0.5 * SIZE


def test_without_the_directory_it_is_none() -> None:
    assert RunSharedMemory("/nonexistent/shm").size_bytes([1], 0) == 0


def test_a_file_without_a_name_counts_by_what_is_mapped() -> None:
    shm = RunSharedMemory()
    before = shm.size_bytes([os.getpid()], 0)
    segment = own_segment()
    segment.unlink()
    try:
        assert shm.size_bytes([os.getpid()], SIZE) - before >= 0.9 * SIZE
        assert shm.size_bytes([os.getpid()], 0) - before < 0.5 * SIZE
    finally:
        segment.close()


def test_files_in_a_folder_count() -> None:
    shm = RunSharedMemory()
    before = shm.size_bytes([os.getpid()], 0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder, "inner").mkdir()
        Path(folder, "inner", "batch").write_bytes(b"x" * SIZE)
        assert shm.size_bytes([os.getpid()], 0) - before >= 0.9 * SIZE
    assert shm.size_bytes([os.getpid()], 0) - before < 0.1 * SIZE


def test_where_only_others_map_segments_one_that_nobody_maps_is_theirs(
    stranger: tuple[subprocess.Popen[str], str],
) -> None:
    shm = RunSharedMemory()
    before = shm.size_bytes([os.getpid()], 0)
    segment = own_segment()
    segment.close()
    try:
        assert shm.size_bytes([os.getpid()], 0) - before < 0.5 * SIZE
        # but this run turns out to use segments, too
        assert shm.size_bytes([os.getpid()], MIB) - before >= 0.9 * SIZE
    finally:
        segment.unlink()
