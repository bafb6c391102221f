"""Words in the memory of another process, and what its dynamic linker wrote there.

Only resident pages are read: reading others would make them resident.
"""

import os
from struct import unpack
from typing import Final, Self

from ramledger.errors import MeasureError
from ramledger.measure import proc

_PRESENT = 0x80  # bit 63 of a pagemap entry: Documentation/admin-guide/mm/pagemap.rst
_SWAPPED = 0x40

_AT_PHDR, _AT_PHENT, _AT_PHNUM = 3, 4, 5  # getauxval(3)
_PT_DYNAMIC, _PT_PHDR = 2, 6  # elf(5)
_DT_NULL, _DT_DEBUG = 0, 21
_PROGRAM_HEADER_BYTES: Final = 56  # of a 64-bit program; others are not read
_MOST_ENTRIES: Final = 4096


class ResidentMemory:
    """The memory of a 64-bit process, open for reading; a context manager."""

    def __init__(self, pid: int) -> None:
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._pagemap = proc.open_file(pid, "pagemap")
        try:
            self._mem = proc.open_file(pid, "mem")
        except MeasureError:
            self._pagemap.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pagemap.close()
        self._mem.close()

    def is_swapped(self, address: int) -> bool:
        return bool(self._page_flags(address) & _SWAPPED)

    def words(self, address: int, count: int) -> tuple[int, ...] | None:
        """Eight-byte words from an address on; None if their pages are not all resident."""
        stop = address + 8 * count
        first_page = address // self._page_bytes * self._page_bytes
        pages = range(first_page, stop, self._page_bytes)
        if not all(self._page_flags(page) & _PRESENT for page in pages):
            return None
        try:
            data = os.pread(self._mem.fileno(), 8 * count, address)
        except (OSError, OverflowError):
            return None
        return unpack(f"{count}Q", data) if len(data) == 8 * count else None

    def _page_flags(self, address: int) -> int:
        try:
            entry = os.pread(self._pagemap.fileno(), 8, address // self._page_bytes * 8)
        except (OSError, OverflowError):
            return 0
        return entry[7] if len(entry) == 8 else 0


def load_order(pid: int) -> tuple[int, ...]:
    """Base addresses of a process's libraries, in the order in which symbols are looked up.

    Libraries loaded at the start come first, those loaded by dlopen last. Empty if the memory may
    not be read, the program is static, or a page that is needed is not resident.
    """
    try:
        auxiliary = proc.read_bytes(pid, "auxv")
        with ResidentMemory(pid) as memory:
            record = _linker_record(memory, auxiliary)
            return tuple(_bases(memory, record)) if record else ()
    except (MeasureError, OSError):
        return ()


def _linker_record(memory: ResidentMemory, auxiliary: bytes) -> int | None:
    """The address of r_debug (link.h), which the linker writes into the program's DT_DEBUG."""
    pairs = unpack(f"{len(auxiliary) // 8}Q", auxiliary[: len(auxiliary) // 8 * 8])
    values = dict(zip(pairs[::2], pairs[1::2], strict=False))
    if values.get(_AT_PHENT) != _PROGRAM_HEADER_BYTES or _AT_PHDR not in values:
        return None
    segments = _segments(memory, values[_AT_PHDR], values.get(_AT_PHNUM, 0))
    if _PT_DYNAMIC not in segments:
        return None
    # a program without PT_PHDR has no loader that would move it
    shift = values[_AT_PHDR] - segments[_PT_PHDR] if _PT_PHDR in segments else 0
    entry = segments[_PT_DYNAMIC] + shift
    for _ in range(_MOST_ENTRIES):
        words = memory.words(entry, 2)
        if words is None or words[0] == _DT_NULL:
            return None
        if words[0] == _DT_DEBUG:
            return words[1] or None
        entry += 16
    return None


def _segments(memory: ResidentMemory, headers: int, count: int) -> dict[int, int]:
    """Address by type of the program's segments, the last of each type."""
    segments = {}
    for at in range(min(count, _MOST_ENTRIES)):
        words = memory.words(headers + at * _PROGRAM_HEADER_BYTES, 3)
        if words is not None:
            segments[words[0] & 0xFFFFFFFF] = words[2]
    return segments


def _bases(memory: ResidentMemory, record: int) -> list[int]:
    """Walk the chain of link_map: base address, name, dynamic section, next, previous."""
    bases: list[int] = []
    head = memory.words(record, 2)
    at = head[1] if head else 0
    while at and len(bases) < _MOST_ENTRIES:
        words = memory.words(at, 4)
        if words is None:
            break
        bases.append(words[0])
        at = words[3]
    return bases
