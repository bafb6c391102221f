"""Shared memory of the machine, made on purpose in every way that training programs make it."""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ramledger.measure.shm import SharedSegment, shared_segments

MIB = 1 << 20


@pytest.fixture
def path() -> Iterator[Path]:
    """A name in /dev/shm of which nothing is left behind."""
    made = Path(f"/dev/shm/ramledger-{uuid4().hex}")
    yield made
    made.unlink(missing_ok=True)


def segment(name: str) -> SharedSegment:
    (found,) = [s for s in shared_segments() if s.name == name]
    return found


def map_file(path: Path, touched_bytes: int) -> str:
    return f"""
descriptor = os.open({str(path)!r}, os.O_RDWR)
shared = mmap.mmap(descriptor, 0)
os.close(descriptor)
shared[:{touched_bytes}] = bytes({touched_bytes})
"""


def test_a_segment_with_two_users(path: Path, child: Callable[..., Any]) -> None:
    path.touch(0o600)
    os.truncate(path, 8 * MIB)
    users = [child(map_file(path, 2 * MIB) + "hold()") for _ in range(2)]
    found = segment(str(path))
    assert found.resident_bytes == 2 * MIB
    assert found.size_bytes == 8 * MIB
    assert found.mapped_by == tuple(sorted(user.pid for user in users))
    assert found.owner_id == os.geteuid()
    assert not found.is_orphan


def test_a_segment_whose_users_are_gone(path: Path, child: Callable[..., Any]) -> None:
    path.touch(0o600)
    os.truncate(path, 8 * MIB)
    child(map_file(path, MIB) + "hold()").end()
    found = segment(str(path))
    assert found.mapped_by == found.opened_by == ()
    assert found.is_orphan
    assert found.resident_bytes == MIB


def test_a_segment_that_is_open_but_not_mapped(path: Path) -> None:
    with path.open("wb") as file:
        file.write(bytes(MIB))
        file.flush()
        found = segment(str(path))
    assert found.mapped_by == ()
    assert found.opened_by == (os.getpid(),)
    assert not found.is_orphan


def test_a_segment_in_a_folder(path: Path) -> None:
    path.mkdir()
    try:
        (path / "plasma").write_bytes(bytes(MIB))
        assert segment(f"{path}/plasma").resident_bytes == MIB
    finally:
        (path / "plasma").unlink()
        path.rmdir()


def test_shared_memory_of_the_standard_library() -> None:
    memory = SharedMemory(create=True, size=4 * MIB)
    try:
        assert memory.buf is not None
        memory.buf[:MIB] = bytes(MIB)
        found = segment(f"/dev/shm/{memory.name}")
        assert (found.resident_bytes, found.size_bytes) == (MIB, 4 * MIB)
        assert found.mapped_by == (os.getpid(),)
    finally:
        memory.close()
        memory.unlink()


def test_an_unlinked_segment_is_still_there(path: Path, child: Callable[..., Any]) -> None:
    """How torch passes tensors between processes."""
    path.touch(0o600)
    os.truncate(path, 4 * MIB)
    program = child(map_file(path, MIB) + f"os.unlink({str(path)!r}); hold()")
    found = segment(f"{path} (deleted)")
    assert (found.resident_bytes, found.size_bytes) == (MIB, 4 * MIB)
    assert found.mapped_by == (program.pid,)


def test_a_memfd(child: Callable[..., Any]) -> None:
    name = f"replay {uuid4().hex}"
    program = child(f"""
descriptor = os.memfd_create({name!r})
os.ftruncate(descriptor, {4 * MIB})
shared = mmap.mmap(descriptor, 0)
shared[:{MIB}] = bytes({MIB})
hold()
""")
    found = segment(f"/memfd:{name}")
    assert (found.resident_bytes, found.size_bytes) == (MIB, 4 * MIB)
    assert found.mapped_by == (program.pid,)


def test_memory_shared_with_forked_workers(child: Callable[..., Any]) -> None:
    program = child(f"""
shared = mmap.mmap(-1, {4 * MIB})
shared[:{MIB}] = bytes({MIB})
reading, writing = os.pipe()
worker = os.fork()
if not worker:
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
hold(worker=worker)
""")
    both = tuple(sorted((program.pid, program.facts["worker"])))
    (found,) = [s for s in shared_segments() if s.mapped_by == both]
    assert found.name == "/dev/zero (deleted)"
    assert (found.resident_bytes, found.size_bytes) == (MIB, 4 * MIB)


def test_a_system_v_segment() -> None:
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    identifier = libc.shmget(0, 4 * MIB, 0o600)
    if identifier < 0:
        pytest.skip("no System V shared memory here")
    name = f"SYSV00000000 (shmid {identifier})"
    try:
        assert segment(name).is_orphan
        address = libc.shmat(identifier, None, 0)
        ctypes.memset(address, 1, MIB)
        found = segment(name)
        libc.shmdt(ctypes.c_void_p(address))
    finally:
        libc.shmctl(identifier, 0, None)
    assert (found.resident_bytes, found.size_bytes) == (MIB, 4 * MIB)
    assert found.mapped_by == (os.getpid(),)


def test_without_privileges(
    path: Path, child: Callable[..., Any], as_nobody: Callable[..., Any]
) -> None:
    """Other users' processes are counted as unknown; one's own nameless memory is a lower bound."""
    path.touch(0o600)
    os.truncate(path, 4 * MIB)
    user = child(map_file(path, MIB) + "hold()")
    size = 4 * MIB + 7 * mmap.PAGESIZE  # other tests may have left mappings to this process

    def seen() -> tuple[SharedSegment, SharedSegment]:
        ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: changing the user cleared it
        shared = mmap.mmap(-1, size)
        shared[:MIB] = bytes(MIB)
        found = shared_segments()
        (theirs,) = [s for s in found if s.name == str(path)]
        (own,) = [s for s in found if s.mapped_by == (os.getpid(),) and s.size_bytes == size]
        return theirs, own

    theirs, own = as_nobody(seen)
    assert user.pid not in theirs.mapped_by
    assert theirs.unreadable_processes >= 2
    assert theirs.resident_bytes == MIB
    assert own.resident_bytes == MIB


def test_the_largest_comes_first() -> None:
    sizes = [s.resident_bytes for s in shared_segments()]
    assert sizes == sorted(sizes, reverse=True)
