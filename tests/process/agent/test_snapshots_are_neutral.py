"""A look must not change how malloc deals with the program's own blocks."""

import subprocess
import sys

PROGRAM = """
import ctypes
from collections import Counter
from ramledger.agent.snapshot_event import take_snapshot
from ramledger.measure.allocators.malloc import malloc_statistics

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def mapped(size):
    before = malloc_statistics().mmapped_bytes
    for _ in range(10):
        libc.malloc(ctypes.c_size_t(size))
    return (malloc_statistics().mmapped_bytes - before) / (10 * size)

class Step:
    pass

log = [Step() for _ in range({count})]   # the list of all objects takes 8 bytes for each
assert mapped(1 << 20) > 0.9, "not glibc's malloc as it starts"
take_snapshot(generation=0, phase="", count_objects={census})
print(mapped(600 << 10))
"""


def blocks_still_mapped(count: int, census: bool) -> float:
    code = PROGRAM.format(count=count, census=census)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return float(done.stdout)


def test_a_look_at_many_objects_leaves_mallocs_threshold_alone() -> None:
    assert blocks_still_mapped(200_000, census=False) > 0.9


def test_a_census_does_so_as_well() -> None:
    assert blocks_still_mapped(200_000, census=True) > 0.9
