"""Thread stacks: where the thread library says they are, against what the mappings tell us."""

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ramledger.measure import stacks
from ramledger.measure.mappings import Mapping, read_mappings
from ramledger.measure.stacks import ThreadStacks, thread_stacks
from tests.support.mapping_lookup import mapping_at

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20

# pthread_getattr_np tells where each thread's stack is: the truth, from the thread itself
THREADS = """
import threading
libc = ctypes.CDLL(None)
libc.pthread_self.restype = ctypes.c_ulong
found, lock, wake = [], threading.Lock(), threading.Event()
def own_stack():
    attributes = ctypes.create_string_buffer(64)
    start, size = ctypes.c_void_p(), ctypes.c_size_t()
    libc.pthread_getattr_np(ctypes.c_ulong(libc.pthread_self()), attributes)
    libc.pthread_attr_getstack(attributes, ctypes.byref(start), ctypes.byref(size))
    libc.pthread_attr_destroy(attributes)
    return start.value, size.value
def body(work):
    work()
    with lock:
        found.append(own_stack())
    wake.wait()
def start(count, work=lambda: None):
    before = len(found)
    for _ in range(count):
        threading.Thread(target=body, args=(work,), daemon=True).start()
    while len(found) < before + count:
        threading.Event().wait(0.01)
"""
FIFTY = THREADS + "start(50)\nhold(stacks=found)"


def resident_truth(pid: int, start: int, stop: int) -> int:
    """Present pages, straight from pagemap; stacks are written, so there is no zero page."""
    with Path(f"/proc/{pid}/pagemap").open("rb") as file:
        file.seek(start // PAGE * 8)
        entries = struct.unpack(f"{(stop - start) // PAGE}Q", file.read((stop - start) // PAGE * 8))
    return sum(PAGE for entry in entries if entry >> 63)


def main_stack(mappings: Sequence[Mapping]) -> Mapping:
    return next(m for m in mappings if m.path == "[stack]")


def assert_found(found: ThreadStacks, mappings: Sequence[Mapping], truth: list[list[int]]) -> None:
    """Exactly the mappings in which the threads' own stacks lie, and the main one."""
    expected = {main_stack(mappings).start}
    for start, size in truth:
        mapping = mapping_at(mappings, start + size - 1)
        assert mapping is not None
        expected.add(mapping.start)
    assert found.starts == expected


def test_fifty_sleeping_threads(child: Callable[..., Any]) -> None:
    program = child(FIFTY)
    mappings = read_mappings(program.pid)
    found = thread_stacks(program.pid, mappings, thread_count=51)
    main = main_stack(mappings)
    assert found.count == 51
    assert_found(found, mappings, program.facts["stacks"])
    assert {size for _, size in program.facts["stacks"]} == {8 * MIB}
    assert found.reserved_bytes == pytest.approx(50 * 8 * MIB + main.size_bytes, rel=0.001)
    touched = [
        resident_truth(program.pid, m.start, m.stop) for m in mappings if m.start in found.starts
    ]
    assert found.resident_bytes == sum(touched)
    assert found.resident_bytes < found.reserved_bytes / 100
    assert found.parts == ()


@pytest.mark.parametrize("size", [64 << 10, 256 << 10, 1 * MIB, 64 * MIB])
def test_stacks_of_other_sizes(size: int, child: Callable[..., Any]) -> None:
    code = THREADS + f"threading.stack_size({size})\nstart(5)\nhold(stacks=found)"
    program = child(code)
    mappings = read_mappings(program.pid)
    found = thread_stacks(program.pid, mappings, thread_count=6)
    assert found.count == 6
    assert_found(found, mappings, program.facts["stacks"])


def test_the_arenas_of_busy_threads_are_no_stacks(child: Callable[..., Any]) -> None:
    busy = THREADS + "work = lambda: kept.append([bytes(600 + n) for n in range(20_000)])\n"
    program = child(busy + "kept = []\nstart(12, work)\nhold(stacks=found)")
    mappings = read_mappings(program.pid)
    # a thread arena is a heap of at most 64 MiB, its unused end is inaccessible
    heaps = [m for m in mappings if m.start % (64 * MIB) == 0 and m.permissions == "rw-p"]
    assert heaps
    found = thread_stacks(program.pid, mappings, thread_count=13)
    assert_found(found, mappings, program.facts["stacks"])


def test_a_process_with_one_thread(child: Callable[..., Any]) -> None:
    program = child("hold()")
    mappings = read_mappings(program.pid)
    found = thread_stacks(program.pid, mappings, thread_count=1)
    assert found.count == 1
    assert found.starts == {main_stack(mappings).start}
    assert found.reserved_bytes == main_stack(mappings).size_bytes


def test_memory_that_avoids_huge_pages_is_no_stack(child: Callable[..., Any]) -> None:
    """It bears the same mark as a stack."""
    buffer = """
buffer = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
buffer.madvise(mmap.MADV_NOHUGEPAGE)
"""
    program = child(THREADS + buffer + "start(3)\nhold(stacks=found)")
    mappings = read_mappings(program.pid)
    found = thread_stacks(program.pid, mappings, thread_count=4)
    assert_found(found, mappings, program.facts["stacks"])


def test_the_stacks_of_ended_threads_that_are_kept(child: Callable[..., Any]) -> None:
    code = "start(3)\nwake.set()\nfor t in threading.enumerate()[1:]: t.join()\nhold(stacks=found)"
    program = child(THREADS + code)
    mappings = read_mappings(program.pid)
    found = thread_stacks(program.pid, mappings, thread_count=1)
    kept = [mapping_at(mappings, start + size - 1) for start, size in program.facts["stacks"]]
    assert found.count == 1 + sum(mapping is not None for mapping in kept)


def test_threads_of_torch(child: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    work = "torch.set_num_threads(4); torch.randn(400, 400) @ torch.randn(400, 400)"
    program = child(f"import torch\n{work}\nhold(threads=len(os.listdir('/proc/self/task')))")
    mappings = read_mappings(program.pid)
    threads = program.facts["threads"]
    assert threads >= 3
    assert thread_stacks(program.pid, mappings, thread_count=threads).count == threads


GUARDED_INSIDE = """
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
size, guard = 8 << 20, 4096
total = size + guard
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x20000  # MAP_STACK
base = libc.mmap(None, 4 * total, 3, flags, -1, 0)
supported = True
for at in range(base, base + 4 * total, total):
    supported &= libc.madvise(ctypes.c_void_p(at), guard, 102) == 0  # MADV_GUARD_INSTALL
    attributes, thread = ctypes.create_string_buffer(64), ctypes.c_ulong()
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstack(attributes, ctypes.c_void_p(at + guard), ctypes.c_size_t(size))
    libc.pthread_create(ctypes.byref(thread), attributes, libc.pause, None)
import time
time.sleep(0.2)
hold(base=base, total=total, supported=supported)
"""


@pytest.mark.parametrize("traced", [True, False])
def test_guards_without_a_mapping_of_their_own(
    traced: bool, child: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As glibc 2.42 makes them: neighboring stacks are one mapping."""
    program = child(GUARDED_INSIDE)
    if not program.facts["supported"]:
        pytest.skip("this kernel has no guard regions")
    if not traced:
        monkeypatch.setattr(stacks, "_stack_pointers", lambda pid: iter(()))
    mappings = read_mappings(program.pid)
    found = thread_stacks(program.pid, mappings, thread_count=5)
    one = mapping_at(mappings, program.facts["base"])
    assert one is not None
    assert one.start == program.facts["base"]
    if "nh" not in one.flags.split():
        pytest.skip("this kernel does not mark stacks")
    assert found.starts == {main_stack(mappings).start, one.start}
    assert found.count == 5


class TestKernelsBefore67:
    """They do not mark stacks, and merge them with a neighbor: marks taken off a real reading."""

    @pytest.fixture
    def program(self, child: Callable[..., Any]) -> Any:
        return child(FIFTY)

    @staticmethod
    def unmarked(pid: int) -> tuple[Mapping, ...]:
        return tuple(m._replace(flags="") for m in read_mappings(pid))

    def test_stack_pointers_tell(self, program: Any) -> None:
        mappings = self.unmarked(program.pid)
        found = thread_stacks(program.pid, mappings, thread_count=51)
        assert found.count == 51
        assert_found(found, mappings, program.facts["stacks"])

    def test_sizes_tell_where_tracing_is_not_permitted(
        self, program: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stacks, "_stack_pointers", lambda pid: iter(()))
        mappings = self.unmarked(program.pid)
        found = thread_stacks(program.pid, mappings, thread_count=51)
        assert found.count == 51
        assert_found(found, mappings, program.facts["stacks"])

    def test_an_arena_above_the_end_of_another_is_no_stack(self, program: Any) -> None:
        """The unused end of an almost full arena looks like a guard below the next one."""
        mappings = self.unmarked(program.pid)
        arena = 64 * MIB
        border = (main_stack(mappings).start - 64 * arena) // arena * arena
        end = Mapping(border - PAGE, border, "---p", 0, 0, "", rss_bytes=0)
        heap = Mapping(border, border + 20 * MIB, "rw-p", 0, 0, "", rss_bytes=20 * MIB)
        crowded = sorted([*mappings, end, heap], key=lambda m: m.start)
        found = thread_stacks(program.pid, crowded, thread_count=100)
        assert heap.start not in found.starts
        assert found.count == 51

    def test_a_stack_merged_with_what_lies_above(self, program: Any) -> None:
        mappings = list(self.unmarked(program.pid))
        start, size = max(program.facts["stacks"])
        top = mapping_at(mappings, start + size - 1)
        assert top is not None
        buffer_bytes = 156 * MIB + PAGE
        grown = top._replace(stop=top.stop + buffer_bytes, rss_bytes=buffer_bytes)
        following = [m for m in mappings if m.start >= grown.stop]
        merged = [m for m in mappings if m.start < top.start] + [grown, *following]
        found = thread_stacks(program.pid, merged, thread_count=51)
        assert found.count == 51
        assert top.start not in found.starts
        assert found.parts == ((top.start, top.stop),)
        assert found.resident_bytes < MIB


def test_a_process_of_another_user(
    child: Callable[..., Any], as_nobody: Callable[..., Any]
) -> None:
    """Who may not trace it gets no stack pointers; whoever gave the mappings, marks are enough."""
    program = child(FIFTY)
    mappings = read_mappings(program.pid)
    found = as_nobody(lambda: thread_stacks(program.pid, mappings, thread_count=51))
    assert_found(found, mappings, program.facts["stacks"])
