"""Which pages of an address range are resident: exact from pagemap, else estimated from smaps."""

import errno
import fcntl
import os
import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Literal, Self

from ramledger.descriptors import OwnedDescriptor
from ramledger.errors import MeasureError, ProcessGoneError
from ramledger.measure import proc
from ramledger.measure.mappings import Mapping, MappingKind, read_mappings

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Range = tuple[int, int]
Method = Literal["pagemap_scan", "pagemap", "smaps"]

# include/uapi/linux/fs.h, since Linux 6.7
_PAGEMAP_SCAN = 0xC0606610  # _IOWR('f', 16, struct pm_scan_arg)
_PM_SCAN_ARG = struct.Struct("=12Q")
_WALK_END = struct.Struct("=32xQ")
_PAGE_IS_PRESENT = 1 << 3
_PAGE_IS_PFNZERO = 1 << 5
_REGIONS = 1024
_REGION_WORDS = 3  # struct page_region: start, end, categories

# the highest byte of a pagemap entry: Documentation/admin-guide/mm/pagemap.rst
_PRESENT = 1 << 7
_FILE = 1 << 5
_EXCLUSIVE = 1 << 0
_ENTRY_BYTES = 8
_CHUNK_PAGES = 1 << 17

# walking the page tables of a gap this wide costs about as much as one more system call
_GAP_BYTES = 1 << 20


def _table(is_resident: Callable[[int], bool]) -> bytes:
    """For bytes.translate: 1 for each highest byte of an entry that means a resident page."""
    return bytes(bool(top & _PRESENT) and is_resident(top) for top in range(256))


# An unprivileged reader gets no page frame number, so the zero page shows only by what it lacks:
# it is neither file nor exclusively mapped, just as a page that a forked process shares; where
# smaps says that the mapping shares nothing, it can only be the zero page. The huge zero page
# shows as file; in anonymous memory it can be nothing else.
_ANONYMOUS = _table(lambda top: bool(top & _EXCLUSIVE) and not top & _FILE)
_ANONYMOUS_SHARED = _table(lambda top: not top & _FILE)
_BACKED = _table(lambda top: bool(top & (_FILE | _EXCLUSIVE)))
_BACKED_SHARED = _table(lambda top: True)


class ResidentPages:
    """The resident pages of one process, counted as RSS counts them.

    Not resident are swapped pages, the shared zero page behind memory that was only read, device
    memory and hugetlb pages: smaps counts none of them in Rss. `method` says how:
    "pagemap_scan" and "pagemap" are exact, "smaps" spreads a mapping's RSS evenly over it.
    """

    def __init__(self, pid: int, mappings: Sequence[Mapping] | None = None) -> None:
        self.pid = pid
        self._mappings = mappings
        self._has_hugetlb = _uses_hugetlb(pid)
        self._regions = array("Q", bytes(8 * _REGION_WORDS * _REGIONS))
        self._pagemap = _open_pagemap(pid)
        self.method: Method = "smaps"
        if self._pagemap is not None:
            self.method = "pagemap_scan" if _can_scan(self._pagemap) else "pagemap"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file descriptor; may be called twice."""
        if self._pagemap is not None:
            self._pagemap.close()
            self._pagemap = None

    def resident_ranges(self, start: int, stop: int) -> list[Range]:
        """The resident parts of [start, stop), in order, neighbors joined.

        With method "smaps" their lengths are the estimate, their places are not known.
        """
        if start >= stop:
            return []
        if self.method == "smaps":
            return list(_joined(self._estimated(start, stop)))
        first, last = start // PAGE_BYTES * PAGE_BYTES, -(-stop // PAGE_BYTES) * PAGE_BYTES
        found = (
            self._scan(first, last) if self.method == "pagemap_scan" else self._read(first, last)
        )
        if self._has_hugetlb:
            found = self._without_hugetlb(found)
        resident = list(_joined(_clipped(found, start, stop)))
        if not resident:
            proc.read_stat(self.pid)  # raises if nothing is resident because the process ended
        return resident

    def resident_bytes(self, ranges: Sequence[Range]) -> list[int]:
        """Resident bytes of each range, to the byte; ranges may overlap and be in any order."""
        if self.method == "smaps":
            return [sum(b - a for a, b in self._estimated(*one)) for one in ranges]
        resident = [part for span in _spans(ranges) for part in self.resident_ranges(*span)]
        starts = [start for start, _ in resident]
        before = [0, *accumulate(stop - start for start, stop in resident)]

        def bytes_below(address: int) -> int:
            at = bisect_right(starts, address) - 1
            if at < 0:
                return 0
            return before[at] + min(address, resident[at][1]) - starts[at]

        return [
            bytes_below(stop) - bytes_below(start) if start < stop else 0 for start, stop in ranges
        ]

    def _known_mappings(self) -> Sequence[Mapping]:
        if self._mappings is None:
            self._mappings = read_mappings(self.pid)
        return self._mappings

    def _scan(self, start: int, stop: int) -> Iterator[Range]:
        address, _ = self._regions.buffer_info()
        while start < stop:
            argument = bytearray(
                _PM_SCAN_ARG.pack(
                    _PM_SCAN_ARG.size,
                    0,  # flags
                    start,
                    stop,
                    0,  # walk_end
                    address,
                    _REGIONS,
                    0,  # max_pages
                    _PAGE_IS_PFNZERO,  # category_inverted
                    _PAGE_IS_PRESENT | _PAGE_IS_PFNZERO,  # category_mask
                    0,  # category_anyof_mask
                    _PAGE_IS_PRESENT,  # return_mask: one category, so that neighbors are one region
                )
            )
            try:
                count = fcntl.ioctl(self._number(), _PAGEMAP_SCAN, argument, True)
            except OSError as error:
                if error.errno == errno.EFAULT:  # beyond user space: vsyscall
                    return
                raise proc.measure_error(self.pid, error, "pagemap") from error
            words = self._regions[: count * _REGION_WORDS]
            yield from zip(words[::_REGION_WORDS], words[1::_REGION_WORDS], strict=True)
            # When the kernel's own buffer of 512 regions is full at the very end of the range,
            # walk_end lags behind the regions it returned (Linux 6.18), and they would come twice.
            (walked,) = _WALK_END.unpack_from(argument)
            reached = max(walked, words[-2] if words else start)
            if reached <= start:
                return
            start = reached

    def _read(self, start: int, stop: int) -> Iterator[Range]:
        for mapping in _overlapping(self._known_mappings(), start, stop):
            table = _table_for(mapping)
            first, last = max(start, mapping.start), min(stop, mapping.stop)
            for at in range(first, last, _CHUNK_PAGES * PAGE_BYTES):
                pages = min(_CHUNK_PAGES, (last - at) // PAGE_BYTES)
                offset = at // PAGE_BYTES * _ENTRY_BYTES
                try:
                    data = os.pread(self._number(), pages * _ENTRY_BYTES, offset)
                except OSError as error:
                    raise proc.measure_error(self.pid, error, "pagemap") from error
                yield from _runs(data[_ENTRY_BYTES - 1 :: _ENTRY_BYTES].translate(table), at)

    def _number(self) -> int:
        return -1 if self._pagemap is None else self._pagemap.fileno()

    def _estimated(self, start: int, stop: int) -> Iterator[Range]:
        for mapping in _overlapping(self._known_mappings(), start, stop):
            first, last = max(start, mapping.start), min(stop, mapping.stop)
            share = (last - first) * mapping.rss_bytes // mapping.size_bytes
            yield first, first + share

    def _without_hugetlb(self, ranges: Iterable[Range]) -> Iterator[Range]:
        for start, stop in ranges:
            for mapping in _overlapping(self._known_mappings(), start, stop):
                if "ht" not in mapping.flags.split():
                    yield max(start, mapping.start), min(stop, mapping.stop)


def _open_pagemap(pid: int) -> OwnedDescriptor | None:
    try:
        return proc.open_file(pid, "pagemap")
    except ProcessGoneError:
        if proc.has_memory(pid):
            raise
        return None
    except MeasureError:  # no permission, or a sandbox without it: smaps may still be readable
        return None


def _can_scan(pagemap: OwnedDescriptor) -> bool:
    nothing = _PM_SCAN_ARG.pack(_PM_SCAN_ARG.size, 0, 0, PAGE_BYTES, 0, 0, 0, 0, 0, 0, 0, 0)
    try:
        fcntl.ioctl(pagemap.fileno(), _PAGEMAP_SCAN, bytearray(nothing), True)
    except OSError:
        return False
    return True


def _uses_hugetlb(pid: int) -> bool:
    return proc.status_bytes(proc.read_status(pid), "HugetlbPages") > 0


def _table_for(mapping: Mapping) -> bytes:
    if mapping.inode == 0 and mapping.kind is not MappingKind.KERNEL:
        return _ANONYMOUS_SHARED if mapping.shared_bytes else _ANONYMOUS
    return _BACKED_SHARED if mapping.shared_bytes else _BACKED


_STOP = attrgetter("stop")


def _overlapping(mappings: Sequence[Mapping], start: int, stop: int) -> Iterator[Mapping]:
    at = bisect_right(mappings, start, key=_STOP)
    while at < len(mappings) and mappings[at].start < stop:
        yield mappings[at]
        at += 1


def _runs(flags: bytes, address: int) -> Iterator[Range]:
    """Address ranges of the runs of 1 in a string with one byte, 0 or 1, for every page."""
    first = flags.find(1)
    while first >= 0:
        last = flags.find(0, first)
        if last < 0:
            last = len(flags)
        yield address + first * PAGE_BYTES, address + last * PAGE_BYTES
        first = flags.find(1, last)


def _clipped(ranges: Iterable[Range], start: int, stop: int) -> Iterator[Range]:
    for first, last in ranges:
        yield max(first, start), min(last, stop)


def _joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """Ordered ranges, empty ones removed, adjacent ones joined."""
    current: Range | None = None
    for start, stop in ranges:
        if start >= stop:
            continue
        if current is not None and current[1] == start:
            current = (current[0], stop)
            continue
        if current is not None:
            yield current
        current = (start, stop)
    if current is not None:
        yield current


def _spans(ranges: Iterable[Range]) -> list[Range]:
    """Few ordered, disjoint spans that cover all ranges: narrow gaps are closed."""
    spans: list[Range] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if spans and start <= spans[-1][1] + _GAP_BYTES:
            spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
        else:
            spans.append((start, stop))
    return spans
