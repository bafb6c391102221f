"""Mallocs recognized and arenas found from outside, on real processes with real libraries."""

import glob
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ramledger.measure.allocators import malloc_kind
from ramledger.measure.allocators.malloc import environment_of
from ramledger.measure.allocators.malloc_kind import HEAP_BYTES, AllocatorFacts, recognize
from ramledger.measure.mappings import Mapping, read_mappings

KIB, MIB = 1 << 10, 1 << 20

WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"
REPLACEMENTS = [
    ("libjemalloc.so*", "jemalloc"),
    ("libtcmalloc_minimal.so*", "tcmalloc"),
    ("libmimalloc.so*", "mimalloc"),
]


def library(pattern: str) -> str:
    for folder in ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        for found in sorted(glob.glob(f"{folder}/{pattern}")):
            return found
    pytest.skip(f"{pattern} is not installed")


def unlimited_stack() -> None:
    """Makes the kernel place mappings upwards, as on clusters with `ulimit -s unlimited`."""
    resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY,) * 2)


@contextmanager
def running(
    *command: str, before: Callable[[], None] | None = None, **environ: str
) -> Iterator[tuple[int, str]]:
    """A process that printed its first line and waits; its pid and that line."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | environ,
        text=True,
        preexec_fn=before,
    )
    try:
        assert child.stdout is not None
        yield child.pid, child.stdout.readline()
    finally:
        child.communicate(timeout=100)


def recognized(pid: int) -> AllocatorFacts:
    return recognize(read_mappings(pid), environment_of(pid), pid)


def compiled(folder: Path, *options: str, compiler: str = "gcc") -> str:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source, program = folder / "program.c", folder / "program"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        'int main(void) { puts(malloc(100) ? "ready" : ""); fflush(stdout); return getchar(); }'
    )
    done = subprocess.run([compiler, source, "-o", program, *options], capture_output=True)
    if done.returncode:
        pytest.skip(f"{compiler} cannot build it: {done.stderr.decode()[-200:]}")
    return str(program)


class TestRecognize:
    def test_glibc(self) -> None:
        with running(sys.executable, "-c", WAIT) as (pid, _):
            facts = recognized(pid)
        assert facts.name == "glibc"
        assert "libc" in facts.evidence
        assert facts.unknown

    @pytest.mark.parametrize("before", [None, unlimited_stack])
    @pytest.mark.parametrize(("pattern", "name"), REPLACEMENTS)
    def test_preloaded(self, pattern: str, name: str, before: Callable[[], None] | None) -> None:
        path = library(pattern)
        with running(sys.executable, "-c", WAIT, before=before, LD_PRELOAD=path) as (pid, _):
            told, seen = recognized(pid), recognize(read_mappings(pid), {}, pid)
        assert told.name == seen.name == name
        assert "LD_PRELOAD" in told.evidence
        assert "before" in seen.evidence
        assert name in told.unknown

    @pytest.mark.parametrize("before", [None, unlimited_stack])
    @pytest.mark.parametrize(("pattern", "name"), REPLACEMENTS[1:])
    def test_opened_later_is_not_the_malloc_of_the_process(
        self, pattern: str, name: str, before: Callable[[], None] | None
    ) -> None:
        program = f"import ctypes; ctypes.CDLL({library(pattern)!r}); {WAIT}"
        with running(sys.executable, "-c", program, before=before) as (pid, _):
            assert any(name in mapping.path for mapping in read_mappings(pid))
            assert recognized(pid).name == "glibc"

    def test_linked(self, tmp_path: Path) -> None:
        path = library("libjemalloc.so*")
        program = compiled(tmp_path, "-Wl,--no-as-needed", path)
        with running(program) as (pid, _):
            assert recognized(pid).name == "jemalloc"

    def test_linked_whatever_the_kernel_places_where(self, tmp_path: Path) -> None:
        """Addresses mislead now and then: the order is what the linker wrote down."""
        program = compiled(tmp_path, "-Wl,--no-as-needed", library("libjemalloc.so*"))
        names = set()
        for _ in range(40):
            with running(program) as (pid, _):
                names.add(recognized(pid).name)
        assert names == {"jemalloc"}

    def test_by_address_where_the_memory_cannot_be_read(self) -> None:
        path = library("libmimalloc.so*")
        with running(sys.executable, "-c", WAIT, LD_PRELOAD=path) as (pid, _):
            mappings = read_mappings(pid)
        assert recognize(mappings, {}).name == "mimalloc"
        assert recognize(mappings, {}, pid).name == "mimalloc"  # the process is gone

    def test_preloaded_by_another_name(self, tmp_path: Path) -> None:
        link = tmp_path / "libjemalloc.so"
        link.symlink_to(library("libjemalloc.so*"))
        with running(sys.executable, "-c", WAIT, LD_PRELOAD=str(link)) as (pid, _):
            assert recognized(pid).name == "jemalloc"

    def test_preloaded_library_without_malloc(self) -> None:
        path = library("libm.so.6")
        with running(sys.executable, "-c", WAIT, LD_PRELOAD=path) as (pid, _):
            assert recognized(pid).name == "glibc"

    def test_sanitizer(self, tmp_path: Path) -> None:
        program = compiled(tmp_path, "-fsanitize=address")
        with running(program, ASAN_OPTIONS="detect_leaks=0") as (pid, line):
            if not line:
                pytest.skip("the address sanitizer does not run here")
            facts = recognized(pid)
        assert facts.name == "unknown"
        assert "libasan" in facts.evidence

    def test_musl(self, tmp_path: Path) -> None:
        with running(compiled(tmp_path, compiler="musl-gcc")) as (pid, _):
            facts = recognized(pid)
        assert facts.name == "musl"
        assert "musl" in facts.unknown

    def test_static_program(self, tmp_path: Path) -> None:
        with running(compiled(tmp_path, "-static")) as (pid, _):
            facts = recognized(pid)
        assert facts.name == "unknown"
        assert "statically" in facts.evidence

    def test_alpine(self) -> None:
        """Alpine's libc and loader are one file; its mappings as a container shows them."""
        loader = Mapping(
            0x7F0000000000, 0x7F0000010000, "r-xp", 0, 7, "/lib/ld-musl-x86_64.so.1", 0
        )
        assert recognize([loader], {}).name == "musl"


ARENAS = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.tmpfile.restype = ctypes.c_void_p
gate, done = threading.Barrier({threads} + 1), threading.Event()
def work(mebibytes):
    for _ in range(mebibytes * 2**20 // 50_000 + 1):
        ctypes.memset(ctypes.c_void_p(libc.malloc(50_000)), 1, 50_000)
    gate.wait()
    done.wait()
for at in range({threads}):
    threading.Thread(target=work, args=(150 if at < {large} else 0,)).start()
gate.wait()
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(b"{info}", b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print("ready", flush=True)
sys.stdin.read()
done.set()
"""


@contextmanager
def arenas(threads: int, large: int, folder: Path) -> Iterator[tuple[int, int, int]]:
    """A process with threads that allocate; its pid, arenas and heaps as glibc tells them."""
    info = folder / "info.xml"
    program = ARENAS.format(threads=threads, large=large, info=info)
    with running(sys.executable, "-c", program) as (pid, line):
        assert line == "ready\n"
        text = info.read_text()
        heaps = sum(
            int(line.split('size="')[1].split('"')[0])
            for line in text.splitlines()
            if 'type="subheaps"' in line
        )
        yield pid, text.count("<heap nr="), heaps


def settled_mappings(pid: int) -> tuple[Mapping, ...]:
    """The mappings once two readings agree: the threads have gone to sleep."""
    now = read_mappings(pid)
    while True:
        time.sleep(0.1)
        before, now = now, read_mappings(pid)
        if now == before:
            return now


class TestArenas:
    @pytest.mark.parametrize(("threads", "large"), [(30, 0), (6, 0), (4, 2)])
    def test_as_many_as_glibc_counts(self, threads: int, large: int, tmp_path: Path) -> None:
        with arenas(threads, large, tmp_path) as (pid, count, heaps):
            mappings = read_mappings(pid)
            assert heaps >= count - 1 + 2 * large  # 150 MiB need three heaps
            assert len(malloc_kind.find_heaps(mappings, pid)) == heaps
            assert len(malloc_kind.find_heaps(mappings)) == heaps

    def test_their_mappings_hold_what_the_threads_wrote(self, tmp_path: Path) -> None:
        with arenas(4, 2, tmp_path) as (pid, _, _):
            mappings = read_mappings(pid)
            starts = malloc_kind.arena_heaps(mappings, pid)
            resident_bytes = sum(m.rss_bytes for m in mappings if m.start in starts)
            assert resident_bytes == pytest.approx(2 * 150 * MIB, rel=0.02)
            assert starts == malloc_kind.arena_heaps(mappings)

    def test_ranges_lie_within_their_mappings(self, tmp_path: Path) -> None:
        with arenas(4, 1, tmp_path) as (pid, _, _):
            mappings = read_mappings(pid)
            for heap in malloc_kind.find_heaps(mappings, pid):
                assert heap.start % HEAP_BYTES == 0
                assert any(m.start <= heap.start and heap.stop <= m.stop for m in mappings)

    def test_none_in_a_process_with_one_thread(self) -> None:
        with running(sys.executable, "-c", WAIT) as (pid, _):
            mappings = read_mappings(pid)
        assert malloc_kind.arena_heaps(mappings) == frozenset()

    def test_a_look_changes_nothing(self, tmp_path: Path) -> None:
        with arenas(6, 1, tmp_path) as (pid, _, _):
            before = settled_mappings(pid)
            malloc_kind.find_heaps(before, pid)
            recognize(before, {}, pid)
            # what is shared, and with how many, is other processes' doing
            assert _own(read_mappings(pid)) == _own(before)

    def test_a_look_alike_is_seen_through(self) -> None:
        """64 MiB at a multiple of 64 MiB, the start writable and used: Go's heap has that shape."""
        program = (
            "import ctypes, mmap, sys\n"
            "libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p\n"
            "size = 64 << 20\n"
            "at = libc.mmap(None, ctypes.c_size_t(2 * size), 0, 0x22, -1, 0)\n"
            "at = -(-at // size) * size\n"
            "libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(1 << 20), 3)\n"
            "ctypes.memset(ctypes.c_void_p(at), 7, 1 << 20)\n"
            "print(at, flush=True); sys.stdin.read()"
        )
        with running(sys.executable, "-c", program) as (pid, line):
            mappings = read_mappings(pid)
            assert int(line) in {heap.start for heap in malloc_kind.find_heaps(mappings)}
            assert malloc_kind.find_heaps(mappings, pid) == ()

    def test_by_shape_where_the_memory_cannot_be_read(self, tmp_path: Path) -> None:
        with arenas(6, 0, tmp_path) as (pid, _, _):
            mappings = read_mappings(pid)
        gone = malloc_kind.find_heaps(mappings, pid)
        assert gone == malloc_kind.find_heaps(mappings)
        assert len(gone) == 6


def region(*parts: tuple[int, int, str, str]) -> list[Mapping]:
    return [Mapping(a, b, mode, 0, 0, "", 0, flags=flags) for a, b, mode, flags in parts]


class TestShapes:
    A = 3 * HEAP_BYTES

    def test_full_heap_next_to_a_begun_one(self) -> None:
        """The kernel joins the writable parts of two neighbors into one mapping."""
        end = self.A + 2 * HEAP_BYTES
        joined = region(
            (self.A, self.A + HEAP_BYTES + MIB, "rw-p", "rd wr nr"),
            (self.A + HEAP_BYTES + MIB, end, "---p", "nr"),
        )
        assert [heap.start for heap in malloc_kind.find_heaps(joined)] == [
            self.A,
            self.A + HEAP_BYTES,
        ]
        assert malloc_kind.arena_heaps(joined) == {self.A}

    def test_guard_of_a_stack_above(self) -> None:
        below_stack = region(
            (self.A, self.A + MIB, "rw-p", "nr"),
            (self.A + MIB, self.A + HEAP_BYTES, "---p", "nr"),
            (self.A + HEAP_BYTES, self.A + HEAP_BYTES + 4096, "---p", ""),
            (self.A + HEAP_BYTES + 4096, self.A + HEAP_BYTES + 8 * MIB, "rw-p", ""),
        )
        assert malloc_kind.find_heaps(below_stack) == (malloc_kind.ArenaHeap(self.A, self.A + MIB),)

    def test_neighbor_below_joined(self) -> None:
        joined = region(
            (self.A - MIB, self.A + MIB, "rw-p", ""),
            (self.A + MIB, self.A + HEAP_BYTES, "---p", ""),
        )
        assert [heap.start for heap in malloc_kind.find_heaps(joined)] == [self.A]
        assert malloc_kind.arena_heaps(joined) == {self.A - MIB}

    @pytest.mark.parametrize(
        "parts",
        [
            # a large array that happens to be aligned
            [(A, A + 10 * HEAP_BYTES, "rw-p", "rd wr ac")],
            # the reservation ends too early, or after a gap
            [(A, A + MIB, "rw-p", ""), (A + MIB, A + 2 * MIB, "---p", "")],
            [(A, A + MIB, "rw-p", ""), (A + 2 * MIB, A + HEAP_BYTES, "---p", "")],
            # shared memory, or code
            [(A, A + MIB, "rw-s", ""), (A + MIB, A + HEAP_BYTES, "---p", "")],
            [(A, A + MIB, "r-xp", ""), (A + MIB, A + HEAP_BYTES, "---p", "")],
            # not at a multiple of 64 MiB
            [(A + MIB, A + 2 * MIB, "rw-p", ""), (A + 2 * MIB, A + HEAP_BYTES, "---p", "")],
        ],
    )
    def test_not_a_heap(self, parts: list[tuple[int, int, str, str]]) -> None:
        assert malloc_kind.find_heaps(region(*parts)) == ()


def _own(mappings: Sequence[Mapping]) -> list[tuple[int, int, str, int, int]]:
    return [(m.start, m.stop, m.permissions, m.rss_bytes, m.anonymous_bytes) for m in mappings]
