"""glibc's books against mallinfo2, against known allocations, and under other mallocs."""

import ctypes
import glob
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ramledger.errors import ProcessGoneError
from ramledger.measure.allocators import malloc

KIB, MIB = 1 << 10, 1 << 20
NOISE_BYTES = 64 * KIB  # what the interpreter itself allocates and frees between two readings

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = (ctypes.c_size_t,)
libc.free.argtypes = (ctypes.c_void_p,)

pytestmark = pytest.mark.skipif(
    not hasattr(libc, "mallinfo2"), reason="needs glibc 2.33 or later as the malloc of the tests"
)


class Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def mallinfo2() -> Mallinfo2:
    libc.mallinfo2.restype = Mallinfo2
    answer: Mallinfo2 = libc.mallinfo2()
    return answer


def books() -> malloc.MallocStatistics:
    answer = malloc.malloc_statistics()
    assert answer is not None
    return answer


@pytest.fixture
def holes() -> Iterator[int]:
    """Free chunks between used ones; gives how many bytes are free in them at least."""
    chunks = [libc.malloc(3000) for _ in range(4000)]
    for chunk in chunks[::2]:
        libc.free(chunk)
    yield 2000 * 3000
    for chunk in chunks[1::2]:
        libc.free(chunk)


def run_python(program: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def library(pattern: str) -> str:
    for folder in ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        for found in sorted(glob.glob(f"{folder}/{pattern}")):
            return found
    pytest.skip(f"{pattern} is not installed")


class TestHeapBooks:
    def test_agree_with_mallinfo2(self, holes: int) -> None:
        found, truth = books(), mallinfo2()
        assert found.system_bytes == pytest.approx(truth.arena, abs=NOISE_BYTES)
        assert found.in_use_bytes == pytest.approx(truth.uordblks, abs=NOISE_BYTES)
        assert found.free_bytes == pytest.approx(truth.fordblks, abs=NOISE_BYTES)
        assert found.free_bytes > holes
        assert (found.mmapped_chunks, found.mmapped_bytes) == (truth.hblks, truth.hblkhd)

    def test_balance(self, holes: int) -> None:
        found = books()
        assert found.in_use_bytes + found.free_bytes == found.system_bytes
        assert 0 <= found.top_bytes <= found.free_bytes

    def test_top_of_the_main_arena_is_keepcost(self, holes: int) -> None:
        main = malloc.arena_statistics()[0]
        assert main.top_bytes == pytest.approx(mallinfo2().keepcost, abs=NOISE_BYTES)

    def test_see_what_is_allocated_and_what_is_freed(self) -> None:
        malloc.trim()
        before = books()
        chunks = [libc.malloc(3000) for _ in range(4000)]
        held = books()
        for chunk in chunks[::2]:
            libc.free(chunk)
        halved = books()
        for chunk in chunks[1::2]:
            libc.free(chunk)
        # a chunk of 3000 bytes takes 3008 with its header, rounded to 16
        grown_bytes = held.in_use_bytes - before.in_use_bytes
        assert grown_bytes == pytest.approx(4000 * 3008, abs=NOISE_BYTES)
        freed_bytes = held.in_use_bytes - halved.in_use_bytes
        assert freed_bytes == pytest.approx(2000 * 3008, abs=NOISE_BYTES)

    def test_large_blocks_are_mmapped(self) -> None:
        before = books()
        block = libc.malloc(64 * MIB)
        held = books()
        libc.free(block)
        assert held.mmapped_chunks - before.mmapped_chunks == 1
        assert 64 * MIB < held.mmapped_bytes - before.mmapped_bytes <= 64 * MIB + 4 * KIB
        assert held.system_bytes == pytest.approx(before.system_bytes, abs=256 * KIB)
        assert books().mmapped_bytes == before.mmapped_bytes

    def test_chunks_in_a_thread_cache_count_as_in_use(self) -> None:
        sizes = [24 + 16 * step for step in range(64)]
        for size in sizes:  # fill this thread's cache: the next chunks will come from it
            for chunk in [libc.malloc(size) for _ in range(7)]:
                libc.free(chunk)
        cached = books()
        chunks = [libc.malloc(size) for size in sizes for _ in range(7)]
        used = books()
        for chunk in chunks:
            libc.free(chunk)
        assert sum(size + 8 for size in sizes) * 7 == 240_128  # 235 KiB, as documented
        assert used.in_use_bytes == pytest.approx(cached.in_use_bytes, abs=NOISE_BYTES)

    def test_print_nothing_and_open_nothing(self, capfd: pytest.CaptureFixture[str]) -> None:
        before = os.listdir("/proc/self/fd")
        books()
        assert os.listdir("/proc/self/fd") == before
        assert capfd.readouterr() == ("", "")

    def test_leave_nothing_behind(self) -> None:
        books()
        before = mallinfo2().uordblks
        for _ in range(500):
            books()
        assert mallinfo2().uordblks - before < NOISE_BYTES

    def test_walk_the_free_chunks_once(self) -> None:
        """Twice would show: mallinfo2 is one walk over the same 100,000 free chunks."""
        chunks = [libc.malloc(600 + 16 * (at % 300)) for at in range(200_000)]
        for chunk in chunks[::2]:
            libc.free(chunk)
        assert sum(arena.free_bytes for arena in malloc.arena_statistics()) >= 50_000 * 600
        ratio = fastest(malloc.malloc_statistics) / fastest(mallinfo2)
        for chunk in chunks[1::2]:
            libc.free(chunk)
        malloc.trim()
        assert ratio < 4


def fastest(call: Callable[[], object]) -> float:
    times = []
    for _ in range(7):
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return min(times)


THREADS = """
import ctypes, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
gate, done = threading.Barrier({threads} + 1), threading.Event()
def work():
    for _ in range(50):
        libc.malloc(5000)
    gate.wait()
    done.wait()
for _ in range({threads}):
    threading.Thread(target=work).start()
gate.wait()
from ramledger.measure.allocators import malloc
arenas, books = malloc.arena_statistics(), malloc.malloc_statistics()
done.set()
print(len(arenas), books.arenas, sum(a.in_use_bytes > 250_000 for a in arenas))
"""


class TestArenas:
    def test_one_each_for_a_few_threads(self) -> None:
        arenas, same, used = map(int, run_python(THREADS.format(threads=5)).split())
        assert arenas == same == 6
        assert used == 6  # the interpreter's own and one for each thread

    def test_no_more_than_eight_a_core(self) -> None:
        threads = 8 * (os.cpu_count() or 1) + 20
        if threads > 200:
            pytest.skip("too many cores to fill all arenas")
        arenas, _, _ = map(int, run_python(THREADS.format(threads=threads)).split())
        assert arenas == 8 * (os.cpu_count() or 1)

    @pytest.mark.parametrize(
        "environ", [{"MALLOC_ARENA_MAX": "2"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}]
    )
    def test_no_more_than_the_setting(self, environ: dict[str, str]) -> None:
        arenas, _, _ = map(int, run_python(THREADS.format(threads=5), **environ).split())
        assert arenas == 2

    def test_sum_up_to_the_heap(self, holes: int) -> None:
        arenas, heap = malloc.arena_statistics(), books()
        assert [arena.index for arena in arenas] == list(range(heap.arenas))
        total = sum(arena.system_bytes for arena in arenas)
        assert total == pytest.approx(heap.system_bytes, abs=NOISE_BYTES)

    def test_can_be_read_while_other_threads_allocate(self) -> None:
        stop = threading.Event()
        failures: list[malloc.ArenaStatistics] = []

        def churn() -> None:
            while not stop.is_set():
                for chunk in [libc.malloc(200 + 40 * at) for at in range(200)]:
                    libc.free(chunk)

        threads = [threading.Thread(target=churn) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(200):
            failures += [
                arena
                for arena in malloc.arena_statistics()
                if min(arena.in_use_bytes, arena.free_bytes, arena.top_bytes) < 0
                or arena.in_use_bytes + arena.free_bytes != arena.system_bytes
            ]
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []


NEWEST = """<malloc version="1">
<heap nr="0">
<sizes>
  <size from="1041" to="1041" total="2082" count="2"/>
  <unsorted from="2065" to="3089" total="5154" count="2"/>
</sizes>
<total type="rest" count="5" size="17236"/>
<system type="current" size="135168"/>
<system type="max" size="200704"/>
<aspace type="total" size="135168"/>
<aspace type="mprotect" size="135168"/>
</heap>
<total type="rest" count="5" size="17236"/>
<total type="mmap" count="3" size="2027520"/>
<system type="current" size="135168"/>
<system type="max" size="200704"/>
<aspace type="total" size="135168"/>
<aspace type="mprotect" size="135168"/>
</malloc>
"""


class TestParsing:
    def test_without_fast_bins(self) -> None:
        info = malloc.parse_malloc_info(NEWEST)
        assert info is not None
        (arena,) = info.arenas
        top_bytes = 17236 - 2082 - 5154
        assert arena.top_bytes == top_bytes
        # the flag bit of each of the four chunks is no memory
        assert arena.free_bytes == 2 * 1040 + 2064 + 3088 + top_bytes
        assert arena.in_use_bytes == 135168 - arena.free_bytes
        assert (info.mmapped_chunks, info.mmapped_bytes) == (3, 2027520)

    def test_with_fast_bins_and_no_top(self) -> None:
        fast = '  <size from="17" to="32" total="96" count="3"/>\n</sizes>\n'
        fast += '<total type="fast" count="3" size="96"/>\n'
        text = NEWEST.replace("</sizes>\n", fast).replace('size="17236"', 'size="7236"', 1)
        info = malloc.parse_malloc_info(text)
        assert info is not None
        assert info.arenas[0].top_bytes == 0
        assert info.arenas[0].free_bytes == 2 * 1040 + 2064 + 3088 + 3 * 32

    @pytest.mark.parametrize("cut", [0, 20, 200, len(NEWEST) - 1])
    def test_a_cut_text_is_not_trusted(self, cut: int) -> None:
        assert malloc.parse_malloc_info(NEWEST[:cut]) is None

    def test_tops_that_an_old_glibc_does_not_list_come_from_mallinfo(self, holes: int) -> None:
        found = books()
        listed_bytes = found.free_bytes - found.top_bytes
        tops_bytes = malloc.unlisted_tops(found.system_bytes, listed_bytes)
        assert tops_bytes == pytest.approx(found.top_bytes, abs=NOISE_BYTES)

    def test_nonsense_of_mallinfo_is_not_taken(self) -> None:
        found = books()
        assert malloc.unlisted_tops(found.system_bytes, found.system_bytes) == 0


def test_trim_gives_holes_back() -> None:
    program = """
import ctypes
from ramledger.measure.allocators import malloc
def rss(): return int(open("/proc/self/statm").read().split()[1]) * 4096
libc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
chunks = [libc.malloc(60_000) for _ in range(1000)]
for chunk in chunks: ctypes.memset(chunk, 1, 60_000)
for chunk in chunks[:-1]: libc.free(chunk)
before = rss(); answer = malloc.trim(); print(answer, before - rss())
"""
    answer, released_bytes = map(int, run_python(program).split())
    assert answer == 1
    assert released_bytes > 0.9 * 999 * 60_000


@pytest.mark.parametrize("name", ["libjemalloc.so*", "libtcmalloc_minimal.so*", "libmimalloc.so*"])
def test_another_malloc_has_no_books(name: str) -> None:
    program = (
        "from ramledger.measure.allocators import malloc;"
        "print(malloc.malloc_statistics(), malloc.arena_statistics());"
        "print(malloc.trim(), malloc.is_glibc())"
    )
    assert run_python(program, LD_PRELOAD=library(name)) == "None ()\n0 False\n"


class TestSettings:
    def test_of_another_process(self) -> None:
        environ = {"MALLOC_ARENA_MAX": "2", "PYTHONMALLOC": "malloc", "OTHER": "a=b\nc"}
        pipe = subprocess.PIPE
        with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, bufsize=0, env=environ) as child:
            assert child.stdin and child.stdout
            child.stdin.write(b"!")
            child.stdout.read(1)  # it runs: until then its environment is empty
            assert malloc.environment_of(child.pid) == environ
            assert malloc.settings_of(child.pid) == {
                "MALLOC_ARENA_MAX": "2",
                "PYTHONMALLOC": "malloc",
            }

    def test_of_no_process(self) -> None:
        with pytest.raises(ProcessGoneError):
            malloc.settings_of(1 << 22)
