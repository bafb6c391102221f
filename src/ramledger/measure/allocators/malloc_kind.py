"""Which malloc any process uses, and where glibc's arenas are, from its mappings.

A malloc that is linked statically into a library serves only that library. The process uses the
one that the dynamic linker found first: preloaded, or loaded before the C library.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Environment
from dataclasses import dataclass
from typing import Final, Literal

from ramledger.errors import MeasureError
from ramledger.measure.foreign_memory import ResidentMemory, load_order
from ramledger.measure.mappings import Mapping, MappingKind

AllocatorName = Literal["glibc", "jemalloc", "tcmalloc", "mimalloc", "musl", "unknown"]

HEAP_BYTES: Final = 64 << 20  # HEAP_MAX_SIZE of glibc on 64-bit machines: size and alignment

_REPLACEMENTS: Final[tuple[tuple[str, AllocatorName], ...]] = (
    ("libjemalloc", "jemalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libmimalloc", "mimalloc"),
    *((stem, "unknown") for stem in ("libhoard", "librpmalloc", "libsnmalloc", "libscudo")),
    *((stem, "unknown") for stem in ("libasan", "libtsan", "libc_malloc_debug", "libumem")),
)
_LARGEST_HEADER_BYTES = 256
_INSIDE_ONLY = "how much of its heap is free: only code inside the process can ask glibc"
_OTHER_MALLOC = (
    "how much of its memory is free: {name} keeps it in anonymous mappings, "
    "and its statistics are not read"
)


@dataclass(frozen=True, slots=True)
class AllocatorFacts:
    """The malloc of a process, the evidence for it, and what stays unknown with it."""

    name: AllocatorName
    evidence: str
    unknown: str


@dataclass(frozen=True, slots=True)
class ArenaHeap:
    """The writable part of one heap of a glibc arena; `arena` is its address where readable."""

    start: int
    stop: int
    arena: int | None = None


def recognize(
    mappings: Sequence[Mapping], environ: Environment[str, str], pid: int | None = None
) -> AllocatorFacts:
    """Name the malloc of a process. `environ` is the one it was started with, empty if unknown.

    With a `pid` whose memory may be read, the order of its libraries is known; else it is
    guessed from their addresses, wrongly for one in twenty programs linked to another malloc.
    """
    files = _first_addresses(mappings)
    preloaded = {_stem(path) for path in _preloaded(environ)}
    libc = next((path for path in files if _is_libc(path)), None)
    replacements = list(_replacements(files))
    order = load_order(pid) if replacements and pid is not None else ()
    for path, name in replacements:
        if _stem(path) in preloaded:
            return _replaced(name, f"LD_PRELOAD names {_basename(path)}, and it is mapped")
        if libc and _is_loaded_before(path, libc, files, order):
            return _replaced(name, f"{_basename(path)} was loaded before {_basename(libc)}")
    if libc is None:
        return AllocatorFacts(
            "unknown",
            "no C library is mapped: the program is linked statically",
            "which malloc it uses, and how much of its heap is free",
        )
    if _is_musl(libc):
        return AllocatorFacts("musl", f"{libc} is mapped", _OTHER_MALLOC.format(name="musl"))
    return AllocatorFacts(
        "glibc", f"{_basename(libc)} is mapped, and no other malloc before it", _INSIDE_ONLY
    )


def arena_heaps(mappings: Sequence[Mapping], pid: int | None = None) -> frozenset[int]:
    """`Mapping.start` of the mappings that hold heaps of glibc arenas other than the main one.

    The kernel joins neighbors, so one mapping may hold several heaps: see `find_heaps`.
    """
    heaps = find_heaps(mappings, pid)
    return frozenset(
        mapping.start
        for mapping in mappings
        if any(mapping.start <= heap.start < mapping.stop for heap in heaps)
    )


def find_heaps(mappings: Sequence[Mapping], pid: int | None = None) -> tuple[ArenaHeap, ...]:
    """The heaps of glibc arenas by their shape, and with `pid` by what is written at their start.

    A heap owns 64 MiB at a multiple of 64 MiB: writable from the start, reserved for the rest
    (in 64-bit processes; those of 32-bit ones are smaller and not searched).
    """
    shaped = tuple(_heaps_by_shape(mappings))
    if pid is None or not shaped:
        return shaped
    try:
        with ResidentMemory(pid) as memory:
            return tuple(heap for shape in shaped if (heap := _confirmed(shape, memory)))
    except (MeasureError, OSError):
        return shaped


def _first_addresses(mappings: Sequence[Mapping]) -> dict[str, int]:
    """The lowest address of each mapped file."""
    files: dict[str, int] = {}
    for mapping in mappings:
        if mapping.path.startswith("/"):
            files.setdefault(mapping.file_path, mapping.start)
    return files


def _preloaded(environ: Environment[str, str]) -> list[str]:
    return environ.get("LD_PRELOAD", "").replace(":", " ").split()


def _replacements(files: Iterable[str]) -> Iterator[tuple[str, AllocatorName]]:
    for path in files:
        for stem, name in _REPLACEMENTS:
            if _basename(path).startswith(stem):
                yield path, name


def _is_loaded_before(
    path: str, libc: str, files: Environment[str, int], order: Sequence[int]
) -> bool:
    """Whether symbols are looked up in a library before the C library."""
    if files[path] in order and files[libc] in order:
        return order.index(files[path]) < order.index(files[libc])
    # The kernel maps the loader first and each further library next to the one before, downwards
    # or (with an unlimited stack) upwards, unless it fits into a gap; dlopen comes after all.
    loader = next((at for name, at in files.items() if _basename(name).startswith("ld-")), None)
    if loader is None:
        return False
    low, high = sorted((loader, files[libc]))
    return low < files[path] < high


def _replaced(name: AllocatorName, evidence: str) -> AllocatorFacts:
    subject = "it" if name == "unknown" else name
    return AllocatorFacts(name, evidence, _OTHER_MALLOC.format(name=subject))


def _is_libc(path: str) -> bool:
    name = _basename(path)
    return name.startswith(("libc.so", "libc-2.", "ld-musl-", "libc.musl-"))


def _is_musl(path: str) -> bool:
    return "musl" in path


def _basename(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    """libjemalloc of libjemalloc.so.2: LD_PRELOAD may name a link to the mapped file."""
    return _basename(path).partition(".so")[0]


def _heaps_by_shape(mappings: Sequence[Mapping]) -> Iterator[ArenaHeap]:
    for at, mapping in enumerate(mappings):
        if not _is_writable_anonymous(mapping):
            continue
        reserved_stop = _reserved_stop(mappings, at)
        for start in range(-(-mapping.start // HEAP_BYTES) * HEAP_BYTES, mapping.stop, HEAP_BYTES):
            stop = min(mapping.stop, start + HEAP_BYTES)
            # glibc maps heaps with MAP_NORESERVE ("nr"), which no large malloc block has
            is_full = stop == start + HEAP_BYTES and "nr" in mapping.flags.split()
            is_begun = stop < start + HEAP_BYTES <= reserved_stop
            if is_full or is_begun:
                yield ArenaHeap(start, stop)


def _is_writable_anonymous(mapping: Mapping) -> bool:
    return mapping.permissions == "rw-p" and mapping.kind is MappingKind.ANONYMOUS


def _reserved_stop(mappings: Sequence[Mapping], at: int) -> int:
    """Where the untouchable address space that follows a mapping without a gap ends."""
    stop = mappings[at].stop
    for following in mappings[at + 1 :]:
        if following.start != stop or not following.is_guard:
            break
        stop = following.stop
    return stop


def _confirmed(heap: ArenaHeap, memory: ResidentMemory) -> ArenaHeap | None:
    """The heap with its arena, if glibc's heap_info stands at its start."""
    if memory.is_swapped(heap.start):
        return heap
    words = memory.words(heap.start, 4)
    if words is None:
        return None
    arena, previous, used_bytes, writable_bytes = words
    is_sized = 0 < used_bytes <= writable_bytes <= HEAP_BYTES
    is_whole_pages = not (used_bytes | writable_bytes) % os.sysconf("SC_PAGE_SIZE")
    # the arena's own record follows the heap_info of its first heap
    is_first = not previous and heap.start < arena < heap.start + _LARGEST_HEADER_BYTES
    is_next = bool(previous) and not previous % HEAP_BYTES
    is_next = is_next and 0 < arena % HEAP_BYTES < _LARGEST_HEADER_BYTES
    if is_sized and is_whole_pages and (is_first or is_next):
        return ArenaHeap(heap.start, heap.start + writable_bytes, arena)
    return None
