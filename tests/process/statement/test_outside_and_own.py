"""Statements of real processes: the books balance, whatever the process does meanwhile."""

import ctypes
import mmap
import os
import subprocess
import sys
import threading
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger.errors import ProcessGoneError
from ramledger.ledger import Source, Statement
from ramledger.statement.outside import outside_statement
from ramledger.statement.own import own_statement
from ramledger.units import MIB
from tests.support.untouched_array import untouched_array
from tests.support.waiting import wait_until


def smaps_rss(pid: int) -> int:
    """RSS by an independent reading."""
    lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


def assert_balanced(statement: Statement) -> None:
    document = statement.to_dict()
    booked = sum(account["resident_bytes"] for account in document["accounts"])
    assert booked + document["unexplained_bytes"] == document["rss_bytes"]
    assert document["unexplained_bytes"] >= 0
    assert all(account["resident_bytes"] >= 0 for account in document["accounts"])
    assert Statement.from_dict(document) == statement


def test_our_own_books_balance() -> None:
    before = smaps_rss(os.getpid())
    statement = own_statement()
    assert_balanced(statement)
    assert statement.inside and statement.pid == os.getpid()
    assert statement.rss_bytes == pytest.approx(before, abs=4 * MIB)


@pytest.fixture
def sleeper() -> Any:
    code = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: state_of(process.pid) == "S")
        yield process.pid
        process.kill()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_an_idle_process_from_outside_balances_to_the_byte(sleeper: int) -> None:
    statement = outside_statement(sleeper)
    assert_balanced(statement)
    assert statement.rss_bytes == smaps_rss(sleeper)
    assert not statement.inside
    assert statement.total("libraries") > MIB


def test_a_process_that_is_not_python() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        command = Path(f"/proc/{process.pid}/cmdline")
        wait_until(lambda: command.read_text().startswith("sleep") and state_of(process.pid) == "S")
        statement = outside_statement(process.pid)
        assert_balanced(statement)
        assert statement.facts["kind"] == "other"
    finally:
        process.kill()
        process.wait()


def test_a_zombie_has_no_memory_and_says_so() -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: state_of(process.pid) == "Z")
    try:
        statement = outside_statement(process.pid)
        assert statement.rss_bytes == 0
        assert_balanced(statement)
        assert "zombie" in " ".join(statement.notes)
    finally:
        process.wait()


def test_an_unknown_pid() -> None:
    with pytest.raises(ProcessGoneError):
        outside_statement(2**22 + 17)


def test_books_balance_while_other_threads_allocate() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            kept = [np.ones(50_000) for _ in range(20)]
            kept.append(np.ones(2_000_000))
            del kept

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert_balanced(own_statement())
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_half_written_array_reads_half() -> None:
    array = untouched_array(64 * MIB)
    array[: 32 * MIB] = 1
    statement = own_statement()
    [item] = [o for o in statement.large_objects if o.reserved_bytes == 64 * MIB]
    assert item.resident_bytes == pytest.approx(32 * MIB, rel=0.07)  # 2 MiB huge pages
    assert item.path.endswith("test_a_half_written_array_reads_half():array")
    assert item.dtype == "uint8"


def test_shared_memory_and_memmaps_go_to_who_holds_them(tmp_path: Path) -> None:
    segment = shared_memory.SharedMemory(create=True, size=16 * MIB)
    try:
        shared = np.ndarray(16 * MIB, np.uint8, segment.buf)
        shared[: 8 * MIB] = 1
        mapped = np.memmap(tmp_path / "frames.bin", np.uint8, "w+", shape=(16 * MIB,))
        mapped[: 4 * MIB] = 1
        statement = own_statement()
        assert_balanced(statement)
        sizes = {o.path.rpartition(":")[2]: o.resident_bytes for o in statement.large_objects}
        assert sizes["shared"] == pytest.approx(8 * MIB, rel=0.01)
        assert sizes["mapped"] == pytest.approx(4 * MIB, rel=0.01)
        del shared
    finally:
        segment.close()
        segment.unlink()


def test_memory_nobody_owns_is_unexplained_and_not_hidden() -> None:
    before = own_statement()
    # a direct mmap from native code: no allocator's books, no object
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    size = 48 * MIB
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
    ctypes.memset(address, 1, size)
    try:
        after = own_statement()
        grown = after.unexplained_bytes - before.unexplained_bytes
        # what was unexplained before may have found an owner meanwhile
        assert grown == pytest.approx(size, abs=8 * MIB)
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))


def test_native_blocks_are_named_but_not_owned() -> None:
    before = own_statement()
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(50_000) for _ in range(600)]
    for block in blocks:
        ctypes.memset(block, 1, 50_000)
    try:
        after = own_statement()
        grown = after.total("native/in use") - before.total("native/in use")
        assert grown == pytest.approx(30_000_000, abs=4 * MIB)
    finally:
        for block in blocks:
            libc.free(block)


def test_freed_blocks_are_the_allocators() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(50_000) for _ in range(600)]
    for block in blocks:
        ctypes.memset(block, 1, 50_000)
    before = own_statement()
    # the last block stays: free memory below it cannot go back to the system
    for block in blocks[:-1]:
        libc.free(block)
    try:
        after = own_statement()
        grown = after.total("allocator/free") - before.total("allocator/free")
        assert grown == pytest.approx(30_000_000, abs=4 * MIB)
        entry = after.get("allocator/free")
        assert entry is not None and entry.source is Source.ALLOCATOR
    finally:
        libc.free(blocks[-1])


def test_a_statement_under_an_address_space_limit() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))\n"
        "from ramledger.statement.own import own_statement\n"
        "s = own_statement(); print(s.limit.source, s.unexplained_bytes >= 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "True" in result.stdout and "RLIMIT_AS" in result.stdout


def test_garbage_collection_and_switch_interval_are_untouched() -> None:
    import gc

    state = (gc.isenabled(), gc.get_threshold(), sys.getswitchinterval(), len(gc.garbage))
    own_statement()
    assert (gc.isenabled(), gc.get_threshold(), sys.getswitchinterval(), len(gc.garbage)) == state


def test_nothing_is_imported() -> None:
    code = (
        "import ramledger; ledger = ramledger.record(); ledger.snapshot()\n"
        "import sys; print([m for m in ('numpy', 'torch', 'psutil', 'rich') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


def test_objects_that_gc_does_not_track_are_pythons() -> None:
    code = (
        "from ramledger.statement.own import own_statement\n"
        "flat = [{'a': i, 'b': 2.0} for i in range(200_000)]\n"
        "s = own_statement(); print(s.unexplained_bytes, s.total('variables/flat'))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    unexplained, held = map(int, result.stdout.split())
    assert unexplained < 2 * MIB, result.stderr
    assert held > 30 * MIB
