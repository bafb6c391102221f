"""Another process's memory: known words, nothing that is not resident, and the linker's order."""

import ctypes
import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramledger.errors import ProcessGoneError
from ramledger.measure.foreign_memory import ResidentMemory, load_order
from ramledger.measure.mappings import read_mappings

PROGRAM = """
import ctypes, mmap, sys
area = mmap.mmap(-1, 4 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area[:16] = (1234567).to_bytes(8, "little") + (89).to_bytes(8, "little")
print(ctypes.addressof(ctypes.c_char.from_buffer(area)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def target() -> Iterator[tuple[int, int]]:
    """A process with four pages, the first one written; its pid and their address."""
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe)
    try:
        assert child.stdout is not None
        yield child.pid, int(child.stdout.readline())
    finally:
        child.communicate(timeout=100)


def presence(pid: int, address: int) -> bool:
    with open(f"/proc/{pid}/pagemap", "rb") as file:
        file.seek(address // mmap.PAGESIZE * 8)
        return bool(struct.unpack("Q", file.read(8))[0] >> 63)


def test_words(target: tuple[int, int]) -> None:
    pid, address = target
    with ResidentMemory(pid) as memory:
        assert memory.words(address, 2) == (1234567, 89)
        assert memory.words(address + 8, 1) == (89,)
        assert not memory.is_swapped(address)


def test_pages_that_are_not_there_stay_away(target: tuple[int, int]) -> None:
    pid, address = target
    untouched = address + mmap.PAGESIZE
    with ResidentMemory(pid) as memory:
        assert memory.words(untouched, 1) is None
        assert memory.words(untouched - 8, 2) is None
    assert presence(pid, address)
    assert not presence(pid, untouched)


@pytest.mark.parametrize("address", [0, 8, 1 << 62, (1 << 64) - 8])
def test_addresses_of_nothing(target: tuple[int, int], address: int) -> None:
    with ResidentMemory(target[0]) as memory:
        assert memory.words(address, 1) is None


def test_no_such_process_and_no_descriptor_left() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ProcessGoneError):
        ResidentMemory(1 << 22)
    assert load_order(1 << 22) == ()
    assert os.listdir("/proc/self/fd") == before


def test_order_of_this_process_is_that_of_dl_iterate_phdr() -> None:
    class Info(ctypes.Structure):
        _fields_ = (("base", ctypes.c_size_t), ("name", ctypes.c_char_p))

    bases: list[int] = []

    def note(info: "ctypes._Pointer[Info]", _size: int, _data: int) -> int:
        bases.append(info.contents.base)
        return 0

    signature = (ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(ctypes.CFUNCTYPE(*signature)(note), None)
    assert load_order(os.getpid()) == tuple(bases)
    starts = {mapping.start for mapping in read_mappings(os.getpid())}
    assert set(bases[1:]) <= starts


@pytest.mark.parametrize(("options", "known"), [(["-no-pie"], True), (["-static"], False)])
def test_other_programs(tmp_path: Path, options: list[str], known: bool) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(
        '#include <stdio.h>\nint main(void) { puts(""); fflush(stdout); return getchar(); }'
    )
    subprocess.run(["gcc", source, "-o", program, *options], check=True)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        order = load_order(child.pid)
        libc = [m.start for m in read_mappings(child.pid) if "/libc.so" in m.path][:1]
    assert bool(order) == known
    assert set(libc) <= set(order)
