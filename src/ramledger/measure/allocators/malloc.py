"""Statistics of glibc's malloc in this process: bytes taken from the kernel, in use and free.

All figures are address space, not residency: free pages at a fresh top, or given back by
malloc_trim, count as free here and are not resident. Chunks in a thread's tcache count as in use:
at most 7 of each of 64 sizes, 235 KiB a thread (glibc 2.42 and later can be told to cache more).
"""

import ctypes
import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ramledger.measure import proc
from ramledger.measure.allocators.memstream import printed_by, process_symbols

SETTINGS: Final = (
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_MAX_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "PYTHONMALLOC",
    "MALLOC_CONF",
)


@dataclass(frozen=True, slots=True)
class ArenaStatistics:
    """One arena; number 0 is the main one. `top_bytes` is the part of free at its end."""

    index: int
    system_bytes: int
    in_use_bytes: int
    free_bytes: int
    top_bytes: int
    heaps: int


@dataclass(frozen=True, slots=True)
class MallocStatistics:
    """All arenas together, and the blocks with a mapping of their own (mmapped).

    system = in use + free; free counts the tops, which malloc_trim gives back first.
    """

    arenas: int
    system_bytes: int
    in_use_bytes: int
    free_bytes: int
    mmapped_bytes: int
    mmapped_chunks: int
    top_bytes: int


@dataclass(frozen=True, slots=True)
class MallocInfo:
    """What malloc_info printed: arenas, and the chunks that have a mapping of their own."""

    arenas: tuple[ArenaStatistics, ...]
    mmapped_chunks: int
    mmapped_bytes: int


def malloc_statistics() -> MallocStatistics | None:
    """Statistics of this process, in one walk over its free chunks; None if malloc is not glibc's.

    It locks one arena at a time, so it is safe while other threads allocate, and must not be
    called from a signal handler that may have interrupted malloc.
    """
    info = _read_malloc_info()
    if info is None:
        return None
    arenas = info.arenas
    system_bytes = sum(arena.system_bytes for arena in arenas)
    free_bytes = sum(arena.free_bytes for arena in arenas)
    # until 2.31 malloc_info left out the tops of the arenas: glibc bug 24026
    is_old = (glibc_version() or (0, 0)) < (2, 31)
    unlisted_bytes = unlisted_tops(system_bytes, free_bytes) if is_old else 0
    return MallocStatistics(
        arenas=len(arenas),
        system_bytes=system_bytes,
        in_use_bytes=system_bytes - free_bytes - unlisted_bytes,
        free_bytes=free_bytes + unlisted_bytes,
        mmapped_bytes=info.mmapped_bytes,
        mmapped_chunks=info.mmapped_chunks,
        top_bytes=sum(arena.top_bytes for arena in arenas) + unlisted_bytes,
    )


def in_use_bytes() -> int | None:
    """In use and mmapped as in `malloc_statistics`; in microseconds with glibc 2.33 or later."""
    if not is_glibc():
        return None
    function = _mallinfo2()
    if function is not None:
        found = function()
        return int(found.uordblks + found.hblkhd)
    found = malloc_statistics()
    return None if found is None else found.in_use_bytes + found.mmapped_bytes


def arena_statistics() -> tuple[ArenaStatistics, ...]:
    """Each arena of this process, the main one first; empty if malloc is not glibc's.

    Before glibc 2.31 the top of each arena counts as in use here (not in `malloc_statistics`).
    """
    info = _read_malloc_info()
    return info.arenas if info else ()


def trim() -> int:
    """Give free pages back to the kernel (malloc_trim(0)): 1 if any were, 0 if none, or no glibc.

    This changes the process: only for probes that a user asked for, never for a measurement.
    """
    if not is_glibc():
        return 0
    return int(process_symbols().malloc_trim(ctypes.c_size_t(0)))


def return_large_blocks(least_bytes: int) -> bool:
    """Let freed blocks of this size and more go back at once (mallopt(M_MMAP_THRESHOLD, …)).

    This changes the process: only for a remedy that a user asked for.
    """
    if not is_glibc():
        return False
    return bool(
        process_symbols().mallopt(ctypes.c_int(_M_MMAP_THRESHOLD), ctypes.c_int(least_bytes))
    )


def settings_of(pid: int) -> dict[str, str]:
    """Variables that configure malloc, as the process was started; setenv does not change them."""
    return _chosen(environment_of(pid))


def environment_of(pid: int) -> dict[str, str]:
    """The environment a process was started with."""
    pairs = (line.partition("=") for line in proc.read_text(pid, "environ").split("\0") if line)
    return {name: value for name, _, value in pairs}


@functools.cache
def glibc_version() -> tuple[int, int] | None:
    """(2, 36), or None where the C library is another one."""
    try:
        function = process_symbols().gnu_get_libc_version
    except (AttributeError, OSError, TypeError):
        return None
    function.restype = ctypes.c_char_p
    major, _, minor = function().decode("ascii", "replace").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


@functools.cache
def is_glibc() -> bool:
    """Whether `malloc` of this process is glibc's and not a replacement."""
    if glibc_version() is None:
        return False
    # In an executable with fixed addresses, malloc's address may be an entry of its own table: so a
    # second function is checked, which every replacement of malloc defines.
    return any(_is_libc(provider_of(name)) for name in ("malloc", "aligned_alloc"))


class _SymbolInfo(ctypes.Structure):
    _fields_ = (
        ("file_name", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def provider_of(function_name: str) -> str:
    """The file from which the dynamic linker resolved a C function; "" if it is not known."""
    symbols = process_symbols()
    try:
        address = ctypes.cast(getattr(symbols, function_name), ctypes.c_void_p)
        found = _SymbolInfo()
        known = symbols.dladdr(address, ctypes.byref(found))
    except AttributeError:
        return ""
    return os.fsdecode(found.file_name) if known and found.file_name else ""


def _is_libc(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(("libc.so", "libc-2."))


def _read_malloc_info() -> MallocInfo | None:
    if not is_glibc():
        return None
    function = process_symbols().malloc_info
    failed, text = printed_by(lambda stream: int(function(0, ctypes.c_void_p(stream))))
    if failed:
        return None
    return parse_malloc_info(text)


def parse_malloc_info(text: str) -> MallocInfo | None:
    """Parse malloc_info's output; None if it is incomplete or in an unknown format."""
    if not text.startswith('<malloc version="1">') or not text.endswith("</malloc>\n"):
        return None
    *heaps, totals = text.split("</heap>\n")
    arenas = tuple(_arena(index, _elements(heap)) for index, heap in enumerate(heaps))
    mmapped = _of_type(_elements(totals), "total", "mmap")
    return MallocInfo(arenas, mmapped.get("count", 0), mmapped.get("size", 0))


@dataclass(frozen=True, slots=True)
class _Element:
    tag: str
    kind: str
    numbers: Mapping[str, int]


def _elements(text: str) -> list[_Element]:
    return [_element(line) for line in text.splitlines() if line.endswith("/>")]


def _element(line: str) -> _Element:
    tag, *attributes = line.strip(" </>").split()
    pairs = [attribute.partition("=") for attribute in attributes]
    values = {name: value.strip('"') for name, _, value in pairs}
    numbers = {name: int(value) for name, value in values.items() if value.isdecimal()}
    return _Element(tag, values.get("type", ""), numbers)


def _arena(index: int, elements: Iterable[_Element]) -> ArenaStatistics:
    elements = list(elements)
    bins = [element.numbers for element in elements if element.tag in ("size", "unsorted")]
    fast = _of_type(elements, "total", "fast")
    rest = _of_type(elements, "total", "rest")
    # chunk sizes are printed with their three flag bits, fastbins without; no top in a bin
    flags_bytes = sum(chunks["count"] * (chunks["to"] & 7) for chunks in bins)
    binned_bytes = sum(chunks["total"] for chunks in bins) - fast.get("size", 0)
    system_bytes = _of_type(elements, "system", "current").get("size", 0)
    free_bytes = fast.get("size", 0) + rest.get("size", 0) - flags_bytes
    free_bytes = max(0, min(free_bytes, system_bytes))
    return ArenaStatistics(
        index=index,
        system_bytes=system_bytes,
        in_use_bytes=system_bytes - free_bytes,
        free_bytes=free_bytes,
        top_bytes=max(0, rest.get("size", 0) - binned_bytes),
        heaps=_of_type(elements, "aspace", "subheaps").get("size", 0),
    )


def _of_type(elements: Iterable[_Element], tag: str, kind: str) -> Mapping[str, int]:
    return next((e.numbers for e in elements if e.tag == tag and e.kind == kind), {})


_M_MMAP_THRESHOLD = -3  # malloc.h
_MALLINFO_FIELDS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint) for name in _MALLINFO_FIELDS)


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLINFO_FIELDS)


@functools.cache
def _mallinfo2() -> Any:
    """The function, or None in glibc before 2.33."""
    function = getattr(process_symbols(), "mallinfo2", None)
    if function is not None:
        function.restype = _Mallinfo2
    return function


def unlisted_tops(system_bytes: int, listed_free_bytes: int) -> int:
    """Free bytes that mallinfo counts and malloc_info does not.

    mallinfo counts in 32 bits, so the result is right while the tops are below 4 GiB together.
    """
    function = process_symbols().mallinfo
    function.restype = _Mallinfo
    unlisted_bytes = (function().fordblks - listed_free_bytes) % (1 << 32)
    return unlisted_bytes if unlisted_bytes <= system_bytes - listed_free_bytes else 0


def _chosen(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in SETTINGS if name in environ}
