"""Resident pages: against memory touched on purpose, and against smaps for a whole process."""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.errors import NotPermittedError, ProcessGoneError
from ramledger.measure import pages
from ramledger.measure.mappings import MappingKind, read_mappings
from ramledger.measure.pages import ResidentPages
from tests.support.mapping_lookup import mapping_at
from tests.support.small_children import Child

PAGE = mmap.PAGESIZE
MIB = 1 << 20
EXACT = ["pagemap_scan", "pagemap"]
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


@pytest.fixture(params=EXACT)
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """This kernel's best way, and what a kernel before 6.7 can do."""
    name = str(request.param)
    with ResidentPages(os.getpid()) as resident:
        if name == "pagemap_scan" and resident.method != name:
            pytest.skip("this kernel has no PAGEMAP_SCAN")
    if name == "pagemap":
        monkeypatch.setattr(pages, "_can_scan", lambda descriptor: False)
    return name


@pytest.fixture
def memory() -> Iterator[mmap.mmap]:
    """16 MiB in small pages, none of them touched."""
    with small_pages(16 * MIB) as mapped:
        yield mapped


def small_pages(size_bytes: int) -> mmap.mmap:
    mapped = mmap.mmap(-1, size_bytes, flags=PRIVATE)
    mapped.madvise(mmap.MADV_NOHUGEPAGE)
    return mapped


def address_of(buffer: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def resident_of(buffer: Any) -> int:
    start = address_of(buffer)
    with ResidentPages(os.getpid()) as resident:
        return resident.resident_bytes([(start, start + len(buffer))])[0]


def test_the_method_is_told(method: str) -> None:
    with ResidentPages(os.getpid()) as resident:
        assert resident.method == method


def test_memory_that_was_not_touched(method: str, memory: mmap.mmap) -> None:
    assert resident_of(memory) == 0


def test_a_half_filled_buffer(method: str, memory: mmap.mmap) -> None:
    memory.write(b"x" * (8 * MIB))
    start = address_of(memory)
    with ResidentPages(os.getpid()) as resident:
        assert resident.method == method
        assert resident.resident_ranges(start, start + 16 * MIB) == [(start, start + 8 * MIB)]


def test_memory_that_was_only_read_is_the_zero_page(method: str, memory: mmap.mmap) -> None:
    assert sum(memory[at] for at in range(0, 16 * MIB, PAGE)) == 0
    memory[5 * PAGE] = 1
    assert resident_of(memory) == PAGE


def test_the_huge_zero_page(method: str) -> None:
    with mmap.mmap(-1, 16 * MIB, flags=PRIVATE) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        assert sum(memory[at] for at in range(0, 16 * MIB, PAGE)) == 0
        assert resident_of(memory) == 0


def test_huge_pages(method: str) -> None:
    with mmap.mmap(-1, 16 * MIB, flags=PRIVATE) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory[8 * MIB] = 1
        mapping = mapping_at(read_mappings(os.getpid()), address_of(memory))
        if mapping is None or not mapping.huge_bytes:
            pytest.skip("the kernel has no huge page to give")
        assert resident_of(memory) == 2 * MIB


def test_memory_that_was_given_back(method: str, memory: mmap.mmap) -> None:
    memory.write(b"x" * (8 * MIB))
    memory.madvise(mmap.MADV_DONTNEED, 2 * MIB, 3 * MIB)
    start = address_of(memory)
    with ResidentPages(os.getpid()) as resident:
        assert resident.resident_ranges(start, start + 16 * MIB) == [
            (start, start + 2 * MIB),
            (start + 5 * MIB, start + 8 * MIB),
        ]


def test_shared_memory(method: str) -> None:
    with mmap.mmap(-1, 16 * MIB) as memory:
        memory.write(b"x" * (3 * MIB))
        assert resident_of(memory) == 3 * MIB


def test_pages_of_a_file(method: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"x" * (4 * MIB))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        # a fault maps the pages around it as well, as far as they are cached: one byte is many
        assert resident_of(memory) == 0
        memory[0] = 1
        mapping = mapping_at(read_mappings(os.getpid()), address_of(memory))
        assert mapping is not None
        assert resident_of(memory) == mapping.rss_bytes >= PAGE
        memory.madvise(mmap.MADV_DONTNEED)
        assert resident_of(memory) == 0


def test_private_copies_of_file_pages(method: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"x" * (64 * PAGE))
    with (
        path.open("r+b") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory,
    ):
        memory[3 * PAGE] = 1
        mapping = mapping_at(read_mappings(os.getpid()), address_of(memory))
        assert mapping is not None
        assert resident_of(memory) == mapping.rss_bytes


def test_pages_shared_with_a_forked_process(method: str, child: Callable[..., Any]) -> None:
    program = child(f"""
memory = mmap.mmap(-1, {16 * MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
memory.write(b"x" * {2 * MIB})
reading, writing = os.pipe()
if not os.fork():
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
hold(address=address(memory))
""")
    start = program.facts["address"]
    mapping = mapping_at(read_mappings(program.pid), start)
    assert mapping is not None and mapping.shared_bytes == 2 * MIB
    with ResidentPages(program.pid) as resident:
        assert resident.resident_bytes([(start, start + 16 * MIB)]) == [2 * MIB]


def test_more_fragments_than_one_answer_holds(method: str, memory: mmap.mmap) -> None:
    touched = range(0, 16 * MIB, 2 * PAGE)
    for at in touched:
        memory[at] = 1
    start = address_of(memory)
    assert len(touched) > 2 * pages._REGIONS - 1
    with ResidentPages(os.getpid()) as resident:
        assert resident.resident_ranges(start, start + 16 * MIB) == [
            (start + at, start + at + PAGE) for at in touched
        ]


@pytest.mark.parametrize("kind", EXACT)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_ranges_over_any_pages(kind: str, data: st.DataObject) -> None:
    """Bytes of touched pages inside each range, counted one by one."""
    count = 64
    touched = data.draw(st.sets(st.integers(0, count - 1)))
    edges = st.integers(0, count * PAGE)
    ranges = data.draw(st.lists(st.tuples(edges, edges), max_size=20))
    with small_pages(count * PAGE) as memory:
        for page in touched:
            memory[page * PAGE] = 1
        base = address_of(memory)
        with ResidentPages(os.getpid()) as resident:
            if kind == "pagemap":
                resident.method = "pagemap"
            found = resident.resident_bytes([(base + a, base + b) for a, b in ranges])
    for (start, stop), resident_bytes in zip(ranges, found, strict=True):
        truth = sum(
            max(0, min(stop, (page + 1) * PAGE) - max(start, page * PAGE)) for page in touched
        )
        assert resident_bytes == (truth if start < stop else 0)


def test_a_small_array_on_a_resident_page_counts_its_own_bytes(
    method: str, memory: mmap.mmap
) -> None:
    memory[0] = 1
    start = address_of(memory)
    with ResidentPages(os.getpid()) as resident:
        assert resident.resident_bytes(
            [(start + 8, start + 108), (start + PAGE - 50, start + PAGE + 50)]
        ) == [100, 50]


def test_ranges_where_nothing_is_mapped(method: str) -> None:
    with ResidentPages(os.getpid()) as resident:
        assert resident.resident_ranges(0, PAGE) == []
        assert resident.resident_bytes([]) == []
        assert resident.resident_bytes([(0, 1 << 30), (5, 5), (9, 3)]) == [0, 0, 0]
        vsyscall = 0xFFFFFFFFFF600000
        assert resident.resident_bytes([(vsyscall, vsyscall + PAGE)]) == [0]


FRAMEWORK = """
import numpy, torch
buffer = numpy.zeros(20 * 2**20, dtype=numpy.uint8)
buffer[: 10 * 2**20] = 1
checked = buffer[15 * 2**20 :].sum()
product = torch.randn(300, 300) @ torch.randn(300, 300)
hold(address=buffer.ctypes.data)
"""


@pytest.fixture(scope="module")
def framework() -> Iterator[Any]:
    """A process with numpy and torch that does nothing meanwhile."""
    pytest.importorskip("torch")
    program = Child(FRAMEWORK)
    yield program
    program.close()


def test_every_mapping_of_a_torch_process_agrees_with_smaps(framework: Any, method: str) -> None:
    mappings = read_mappings(framework.pid)
    with ResidentPages(framework.pid) as resident:
        assert resident.method == method
        together = resident.resident_bytes([(m.start, m.stop) for m in mappings])
        one_by_one = [
            sum(stop - start for start, stop in resident.resident_ranges(m.start, m.stop))
            for m in mappings
        ]
    differing = [m for m, r in zip(mappings, together, strict=True) if m.rss_bytes != r]
    assert differing == []
    assert one_by_one == together
    assert sum(together) > 100 * MIB


def test_a_half_filled_array_of_another_process(framework: Any, method: str) -> None:
    start = framework.facts["address"]
    with ResidentPages(framework.pid) as resident:
        (found,) = resident.resident_bytes([(start, start + 20 * MIB)])
    # numpy asks for huge pages: the last one may reach beyond what was filled
    assert 10 * MIB <= found <= 12 * MIB


def test_many_small_ranges_need_few_calls(framework: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = ResidentPages.resident_ranges

    def counted(self: ResidentPages, start: int, stop: int) -> list[tuple[int, int]]:
        calls.append((start, stop))
        return real(self, start, stop)

    monkeypatch.setattr(ResidentPages, "resident_ranges", counted)
    heap = next(m for m in read_mappings(framework.pid) if m.kind is MappingKind.HEAP)
    ranges = [(at, at + 100) for at in range(heap.start, heap.stop - 100, 512)]
    with ResidentPages(framework.pid) as resident:
        resident.resident_bytes(ranges)
    assert len(ranges) > 10_000
    assert len(calls) == 1


def test_the_estimate_from_smaps(framework: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_open_pagemap", lambda pid: None)
    mappings = read_mappings(framework.pid)
    partly = max(mappings, key=lambda m: m.size_bytes - m.rss_bytes)
    middle = partly.start + partly.size_bytes // 2
    with ResidentPages(framework.pid) as resident:
        assert resident.method == "smaps"
        found = resident.resident_bytes([(m.start, m.stop) for m in mappings])
        halves = resident.resident_bytes([(partly.start, middle), (middle, partly.stop), (9, 3)])
        ranges = resident.resident_ranges(partly.start, partly.stop)
    assert found == [m.rss_bytes for m in mappings]
    assert sum(stop - start for start, stop in ranges) == partly.rss_bytes > 0
    assert halves == pytest.approx([partly.rss_bytes / 2, partly.rss_bytes / 2, 0], rel=0.001)


def test_the_descriptor_is_given_back() -> None:
    before = os.listdir("/proc/self/fd")
    with ResidentPages(os.getpid()) as resident:
        assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    resident.close()
    assert os.listdir("/proc/self/fd") == before


def test_a_process_that_ends_meanwhile(method: str, child: Callable[..., Any]) -> None:
    program = child("hold()")
    heap = next(m for m in read_mappings(program.pid) if m.kind is MappingKind.HEAP)
    with ResidentPages(program.pid) as resident:
        assert resident.resident_bytes([(heap.start, heap.stop)])[0] > 0
        program.end()
        with pytest.raises(ProcessGoneError):
            resident.resident_bytes([(heap.start, heap.stop)])
    with pytest.raises(ProcessGoneError):
        ResidentPages(program.pid)


def test_processes_without_memory(child: Callable[..., Any]) -> None:
    program = child("hold()")
    program.end(reap=False)
    pids = [program.pid]
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
        pids.append(2)
    for pid in pids:
        with ResidentPages(pid) as resident:
            assert resident.resident_bytes([(PAGE, 1 << 40)]) == [0]


def test_a_process_of_another_user(
    child: Callable[..., Any], as_nobody: Callable[..., Any]
) -> None:
    program = child("hold()")

    def resident_bytes() -> list[int]:
        with ResidentPages(program.pid) as resident:
            return resident.resident_bytes([(PAGE, 1 << 40)])

    with pytest.raises(NotPermittedError):
        as_nobody(resident_bytes)


def test_an_unprivileged_reader_of_its_own_process(
    method: str, memory: mmap.mmap, as_nobody: Callable[..., Any]
) -> None:
    def half_filled() -> tuple[str, int]:
        fresh = small_pages(4 * MIB)
        fresh.write(b"x" * MIB)
        assert fresh[2 * MIB] == 0
        ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: changing the user cleared it
        with ResidentPages(os.getpid()) as resident:
            start = address_of(fresh)
            return resident.method, resident.resident_bytes([(start, start + 4 * MIB)])[0]

    assert as_nobody(half_filled) == (method, MIB)
