"""Forks workers that share a large graph, and prints how many bytes each copies in snapshots.

A worker copies a page as soon as it changes a reference count in it. `copied_by_references` is
what `gc.get_objects()` copies in the same place.
"""

import gc
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ramledger.agent.snapshot_event import take_snapshot

WORKERS = 8
SNAPSHOTS = 20
HOLDERS = 120_000  # each holds a dictionary, a list and an array


def private_bytes() -> int:
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        rows = [line.split() for line in file if line.startswith("Private_")]
    return sum(int(row[1]) << 10 for row in rows)


def in_worker(work: Callable[[], Any]) -> int:
    """Bytes that a forked process copies or allocates by `work`, which it did once before."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        before = private_bytes()
        work()
        os.write(writing, b"%d" % (private_bytes() - before))
        os._exit(0)
    os.close(writing)
    copied = int(os.read(reading, 64))
    os.close(reading)
    assert os.waitpid(pid, 0)[1] == 0
    return copied


def snapshots(census: bool) -> None:
    for _ in range(SNAPSHOTS):
        take_snapshot(generation=1, phase="", count_objects=census)


def main(census: bool) -> None:
    kept = iter([[{"number": [i]}, np.zeros(4)] for i in range(HOLDERS)])
    gc.collect()
    take_snapshot(generation=1, phase="", count_objects=census)
    copied = [in_worker(lambda: snapshots(census)) for _ in range(WORKERS)]
    by_references = in_worker(lambda: gc.get_objects())
    print(json.dumps({"copied": copied, "copied_by_references": by_references}))
    del kept


if __name__ == "__main__":
    main(sys.argv[1] == "census")
