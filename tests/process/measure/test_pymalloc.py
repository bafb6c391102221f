"""CPython's books: they balance, see known objects, and are honest where there are none."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ramledger.measure.allocators import pymalloc

SRC = Path(pymalloc.__file__).parents[3]

REPORT = """
from ramledger.measure.allocators import pymalloc
books = pymalloc.pymalloc_statistics()
assert not books or books.arena_bytes == books.used_bytes + books.free_bytes + books.overhead_bytes
print(books is not None)
"""

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("PYTHONMALLOC")), reason="PYTHONMALLOC changes what is to be counted"
)


def books() -> pymalloc.PymallocStatistics:
    answer = pymalloc.pymalloc_statistics()
    assert answer is not None
    return answer


def report(python: str = sys.executable, **environ: str) -> str:
    done = subprocess.run(
        [python, "-c", REPORT],
        env=os.environ | {"PYTHONPATH": str(SRC)} | environ,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def interpreter(version: str) -> str:
    python = shutil.which(f"python{version}")
    if not python or subprocess.run([python, "-V"], capture_output=True).returncode:
        pytest.skip(f"python{version} is not installed")
    return python


class TestPythonBooks:
    def test_balance_to_the_byte(self) -> None:
        found = books()
        assert found.arena_bytes == found.used_bytes + found.free_bytes + found.overhead_bytes
        assert found.arena_bytes % found.arenas == 0
        assert 0 <= found.unused_pool_bytes <= found.free_bytes

    def test_see_what_is_allocated(self) -> None:
        count = 300_000
        keep: list[object] = [None] * count
        before = books()
        for at in range(count):
            keep[at] = object()
        held = books()
        assert held.used_bytes - before.used_bytes == pytest.approx(16 * count, rel=0.01)
        assert held.blocks - before.blocks == pytest.approx(count, rel=0.01)

    def test_see_what_is_free(self) -> None:
        keep = [(at, at) for at in range(300_000)]
        held = books()
        del keep[::2]
        halved = books()
        freed_bytes = held.used_bytes - halved.used_bytes
        # a tuple of two with its header for the collector (56), and an int (28), rounded to 16
        assert freed_bytes == pytest.approx(150_000 * (64 + 32), rel=0.02)
        grown_bytes = halved.arena_bytes - held.arena_bytes
        assert grown_bytes in (0, 1 << 20)  # another thread of this process may need one
        found_bytes = halved.free_bytes - held.free_bytes - grown_bytes
        assert found_bytes == pytest.approx(freed_bytes, rel=0.05)

    def test_leave_out_what_is_larger_than_512_bytes(self) -> None:
        before = books()
        keep = [bytearray(100_000) for _ in range(100)]
        grown_bytes = books().used_bytes - before.used_bytes
        assert grown_bytes < 100_000
        assert len(keep) == 100

    def test_print_nothing_and_open_nothing(self, capfd: pytest.CaptureFixture[str]) -> None:
        before = os.listdir("/proc/self/fd")
        books()
        assert os.listdir("/proc/self/fd") == before
        assert capfd.readouterr() == ("", "")

    def test_blocks_count_large_ones_too(self) -> None:
        before = pymalloc.blocks()
        keep = [bytes(1000) for _ in range(5000)]
        assert pymalloc.blocks() - before == pytest.approx(len(keep), abs=200)


class TestWhereThereAreNone:
    def test_malloc_instead(self) -> None:
        assert report(PYTHONMALLOC="malloc") == "False"

    def test_debug_hooks_are_no_obstacle(self) -> None:
        assert report(PYTHONMALLOC="pymalloc_debug") == "True"

    def test_mimalloc_instead(self) -> None:
        assert report(interpreter("3.13"), PYTHONMALLOC="mimalloc") == "False"

    @pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
    def test_other_versions(self, version: str) -> None:
        assert report(interpreter(version)) == "True"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "Small block threshold = 512, in 32 size classes.\nnothing more\n",
            "# bytes in allocated blocks = many\n",
            "4 arenas * 1048576 bytes/arena = 4,194,304\n",
        ],
    )
    def test_unknown_text(self, text: str) -> None:
        assert pymalloc.parse_statistics(text) is None


def test_the_map_over_the_arenas_lies_outside_of_them() -> None:
    text = (
        "2 arenas * 1000 bytes/arena = 2,000\n# bytes in allocated blocks = 1,500\n"
        "# bytes in available blocks = 100\n1 unused pools * 300 bytes = 300\n"
        "# bytes lost to pool headers = 60\n# bytes lost to quantization = 40\n"
        "Total = 2,000\n\n# bytes lost to arena map root = 262,144\nTotal = 262,144\n"
    )
    found = pymalloc.parse_statistics(text)
    assert found == pymalloc.PymallocStatistics(
        arenas=2,
        arena_bytes=2000,
        used_bytes=1500,
        free_bytes=400,
        unused_pool_bytes=300,
        overhead_bytes=100,
        blocks=0,
    )


def test_books_balance_while_other_threads_make_objects() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            assert len([object() for _ in range(2000)]) == 2000

    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    readings = [books() for _ in range(50)]
    stop.set()
    for thread in threads:
        thread.join()
    assert all(b.arena_bytes == b.used_bytes + b.free_bytes + b.overhead_bytes for b in readings)
