"""How far ahead this kernel maps torch's library when one of its pages is touched.

Linux 6.18 maps a whole folio of the page cache at a fault, and how large those are depends on who
read or wrote the file before: 64 KiB to 2 MiB. The same import then takes 75 or 147 MiB of file
pages. They are shared and can be reclaimed, but they are in RSS. Older kernels map 64 KiB.
"""

import mmap
import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from math import log2

from ramledger.units import MIB

# KiB mapped at a fault -> MiB that `import torch` takes beyond those of 64 KiB (torch 2.13, CPU)
_AHEAD = {64: 0, 128: 8, 256: 21, 1024: 47, 2048: 71}
MOST_AHEAD_BYTES = 71 * MIB
# what a training touches later comes on top: 26 to 31 MiB for 21, 83 to 117 for 71 (four jobs)
TRAINING_FACTOR = 1.4

_WINDOW_BYTES = 4 << 20
_WINDOWS = 12
# symbols at its end are never mapped
_MAPPED_SHARE = 0.75


def ahead_bytes() -> int | None:
    """What an import takes here beyond the least; None when torch is not installed."""
    path = _library()
    if path is None:
        return None
    try:
        sizes = _sampled(path)
    except (OSError, ValueError):
        return None
    return round(sum(map(_interpolated, sizes)) / len(sizes) * MIB) if sizes else None


def _library() -> str | None:
    found = find_spec("torch")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = os.path.join(folder, "lib", "libtorch_cpu.so")
        if os.path.exists(path):
            return path
    return None


def _sampled(path: str) -> list[int]:
    """KiB that are mapped when one byte is read, in windows over the file."""
    fd = os.open(path, os.O_RDONLY)
    windows: list[mmap.mmap] = []
    try:
        size = os.fstat(fd).st_size
        begins = {
            round(size * _MAPPED_SHARE * at / _WINDOWS) // _WINDOW_BYTES * _WINDOW_BYTES
            for at in range(_WINDOWS)
        }
        cached = [at for at in begins if at + _WINDOW_BYTES <= size and _is_cached(fd, at)]
        for at in cached:
            window = mmap.mmap(
                fd, _WINDOW_BYTES, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ, offset=at
            )
            windows.append(window)
            window[_WINDOW_BYTES // 2]
        # what is not in the page cache will come in small pieces, by faults
        return [*_resident(path), *[64] * (len(begins) - len(cached))]
    finally:
        for window in windows:
            window.close()
        os.close(fd)


def _is_cached(fd: int, at: int) -> bool:
    try:
        return os.preadv(fd, [bytearray(1)], at + _WINDOW_BYTES // 2, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False


def _resident(path: str) -> Iterator[int]:
    """KiB of each of our windows: torch's own mappings, if it is loaded, are executable."""
    name, is_ours = os.path.basename(path), False
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if "-" in line.split(" ", 1)[0]:
                is_ours = line.rstrip().endswith(name) and " r--p " in line
            elif is_ours and line.startswith("Size:"):
                is_ours = int(line.split()[1]) == _WINDOW_BYTES // 1024
            elif is_ours and line.startswith("Rss:"):
                yield int(line.split()[1])


def _interpolated(kib: int) -> float:
    for (low, below), (high, above) in pairwise(_AHEAD.items()):
        if kib <= high:
            share = max(log2(max(kib, low) / low) / log2(high / low), 0.0)
            return below + share * (above - below)
    return float(max(_AHEAD.values()))
