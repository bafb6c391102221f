"""/proc/PID/smaps as data: every mapping of a process with its resident bytes, and their sums."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from ramledger.errors import MeasureError, ProcessGoneError
from ramledger.measure import proc

DELETED = " (deleted)"

_SHARED_MEMORY = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/hugepages/", "[anon_shmem:")
_SIZE_FIELDS: tuple[tuple[str, ...], ...] = (
    ("Rss",),
    ("Pss",),
    ("Private_Clean",),
    ("Private_Dirty",),
    ("Shared_Clean", "Shared_Dirty"),
    ("Anonymous",),
    ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"),
    ("Swap",),
)
_DEVICE = ("/dev/", "anon_inode:", "/dmabuf:", "/i915", "/drm mm object")


class MappingKind(StrEnum):
    """What backs the pages of a mapping."""

    HEAP = "heap"
    STACK = "stack"
    ANONYMOUS = "anonymous"
    FILE = "file"
    SHARED_MEMORY = "shared-memory"
    KERNEL = "kernel"
    DEVICE = "device"


class Mapping(NamedTuple):
    """One mapping as smaps shows it; `path` is as the kernel prints it, " (deleted)" included."""

    start: int
    stop: int
    permissions: str
    offset: int
    inode: int
    path: str
    rss_bytes: int
    pss_bytes: int = 0
    private_clean_bytes: int = 0
    private_dirty_bytes: int = 0
    shared_bytes: int = 0
    anonymous_bytes: int = 0
    huge_bytes: int = 0
    swap_bytes: int = 0
    flags: str = ""
    device: str = "00:00"
    on_tmpfs: bool = False

    @property
    def size_bytes(self) -> int:
        return self.stop - self.start

    @property
    def uss_bytes(self) -> int:
        """Resident bytes that no other process shares: freed when the process ends."""
        return self.private_clean_bytes + self.private_dirty_bytes

    @property
    def is_private(self) -> bool:
        return self.permissions[3] == "p"

    @property
    def is_guard(self) -> bool:
        """Inaccessible address space: the guard below a stack, or reserved for later."""
        return self.permissions == "---p" and self.inode == 0

    @property
    def file_path(self) -> str:
        """The path without the kernel's mark for an unlinked file."""
        return self.path.removesuffix(DELETED)

    @property
    def kind(self) -> MappingKind:
        if not self.path:
            return MappingKind.ANONYMOUS
        return _kind(self.path, self.permissions[3] == "p", self.on_tmpfs)


@lru_cache(maxsize=1024)
def _kind(path: str, is_private: bool, on_tmpfs: bool) -> MappingKind:
    if path[0] == "[":
        return _bracketed_kind(path)
    if path.startswith(_SHARED_MEMORY):
        return MappingKind.SHARED_MEMORY
    if path.startswith(("/dev/zero", "/anon_hugepage")):
        return MappingKind.ANONYMOUS if is_private else MappingKind.SHARED_MEMORY
    if path.startswith(_DEVICE):
        return MappingKind.DEVICE
    return MappingKind.SHARED_MEMORY if on_tmpfs else MappingKind.FILE


def _bracketed_kind(path: str) -> MappingKind:
    if path == "[heap]":
        return MappingKind.HEAP
    if path.startswith("[stack"):  # "[stack:TID]" until Linux 4.5
        return MappingKind.STACK
    if path.startswith("[anon:"):
        return MappingKind.ANONYMOUS
    if path.startswith("[anon_shmem:"):
        return MappingKind.SHARED_MEMORY
    return MappingKind.KERNEL


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a process; anon + file + shmem = RSS."""

    rss_bytes: int
    pss_bytes: int
    uss_bytes: int
    anon_bytes: int
    file_bytes: int
    shmem_bytes: int
    swap_bytes: int
    size_bytes: int
    huge_bytes: int


_LAST_FIELD = b"\nVmFlags:"  # of every mapping, in every kernel since 3.8


def read_mappings(pid: int) -> tuple[Mapping, ...]:
    """All mappings by address; none for a kernel thread or a zombie, which have no memory."""
    proc.require_linux()
    devices = _tmpfs_devices(pid)
    found: list[Mapping] = []
    last = b""  # it may be incomplete: parsed only after the process is known to be alive
    try:
        for piece in proc.read_pieces(pid, "smaps", _LAST_FIELD):
            found += parse_smaps(last, devices)
            last = piece
    except ProcessGoneError:
        if proc.has_memory(pid):
            raise
        return ()
    # the kernel ends the list early, without an error, if the process ends meanwhile
    if not proc.has_memory(pid):
        if last:
            raise ProcessGoneError(f"process {pid} ended while it was being read", pid=pid)
        return ()
    return (*found, *parse_smaps(last, devices))


def parse_smaps(data: bytes, tmpfs_devices: frozenset[str] = frozenset()) -> tuple[Mapping, ...]:
    """The mappings in the text of one smaps file."""
    text = data.decode("utf-8", "backslashreplace").rstrip("\n")
    lines = text.split("\n") if text else []
    # A kernel prints the same fields for every mapping, so the text is parsed by column, several
    # times faster than mapping by mapping; a kernel that varies the fields is parsed that way.
    stride = _next_header(lines, 1)
    try:
        return tuple(_parse_table(lines, stride, tmpfs_devices))
    except _IrregularError:
        return tuple(_parse_blocks(lines, tmpfs_devices))


def totals(mappings: Iterable[Mapping]) -> Totals:
    """The sums over one reading of smaps. A statement uses this RSS; that of statm lags behind."""
    rss = pss = uss = anon = shmem = swap = size = huge = 0
    for mapping in mappings:
        if mapping.path != "[vsyscall]":  # a page of the kernel, which VmSize leaves out, too
            size += mapping.size_bytes
        swap += mapping.swap_bytes
        if not mapping.rss_bytes:
            continue
        rss += mapping.rss_bytes
        pss += mapping.pss_bytes
        uss += mapping.uss_bytes
        anon += mapping.anonymous_bytes
        huge += mapping.huge_bytes
        if mapping.kind is MappingKind.SHARED_MEMORY:
            shmem += mapping.rss_bytes - mapping.anonymous_bytes
    return Totals(rss, pss, uss, anon, rss - anon - shmem, shmem, swap, size, huge)


def _next_header(lines: Sequence[str], at: int) -> int:
    """Addresses are printed in lowercase, field names begin with a capital."""
    while at < len(lines) and "A" <= lines[at][:1] <= "Z":
        at += 1
    return at


class _IrregularError(Exception):
    """Not every mapping has the same fields in the same places."""


def _parse_blocks(lines: Sequence[str], tmpfs_devices: frozenset[str]) -> Iterator[Mapping]:
    start = 0
    while start < len(lines):
        stop = _next_header(lines, start + 1)
        yield from _parse_table(lines[start:stop], stop - start, tmpfs_devices)
        start = stop


def _parse_table(
    lines: Sequence[str], stride: int, tmpfs_devices: frozenset[str]
) -> Iterator[Mapping]:
    """Mappings of `stride` lines each: a header and the same fields in the same order."""
    if len(lines) % stride:
        raise _IrregularError
    headers = lines[::stride]
    columns = {lines[at].partition(":")[0]: at for at in range(1, stride)}
    sizes = [_sizes(lines, stride, columns, names) for names in _SIZE_FIELDS]
    flags = _flags(lines, stride, columns)
    for header, row_flags, row in zip(headers, flags, zip(*sizes, strict=True), strict=True):
        parts = header.split(None, 5)
        start, _, stop = parts[0].partition("-")
        rss, pss, private_clean, private_dirty, shared, anonymous, huge, swap = row
        yield Mapping(
            int(start, 16),
            int(stop, 16),
            parts[1],
            int(parts[2], 16),
            int(parts[4]),
            proc.printable(parts[5]) if len(parts) > 5 else "",
            rss,
            pss,
            private_clean,
            private_dirty,
            shared,
            anonymous,
            huge,
            swap,
            row_flags,
            parts[3],
            parts[3] in tmpfs_devices,
        )


def _sizes(
    lines: Sequence[str], stride: int, columns: dict[str, int], names: Iterable[str]
) -> list[int]:
    """The sum of the named columns in bytes, by row; 0 for fields that this kernel lacks."""
    sums = [0] * (len(lines) // stride)
    for name in names:
        if name not in columns:
            continue
        column = lines[columns[name] :: stride]
        # few distinct lines: each is parsed once
        values = {line: _size_bytes(line, name) for line in set(column)}
        if any(values.values()):
            sums = [total + values[line] for total, line in zip(sums, column, strict=True)]
    return sums


def _size_bytes(line: str, name: str) -> int:
    field, _, size = line.partition(":")
    if field != name:
        raise _IrregularError
    return int(size.removesuffix("kB")) * 1024


def _flags(lines: Sequence[str], stride: int, columns: dict[str, int]) -> Sequence[str]:
    if "VmFlags" not in columns:
        return [""] * (len(lines) // stride)
    column = lines[columns["VmFlags"] :: stride]
    values = {line: line[9:].rstrip() for line in set(column)}
    if not all(line.startswith("VmFlags:") for line in values):
        raise _IrregularError
    return [values[line] for line in column]


def _tmpfs_devices(pid: int) -> frozenset[str]:
    """Device numbers of tmpfs mounts: files there are RAM, wherever they are mounted."""
    try:
        mounts = proc.read_text(pid, "mountinfo").splitlines()
    except MeasureError:
        return frozenset()
    devices = set()
    for line in mounts:
        mount, _, source = line.partition(" - ")
        if source.startswith("tmpfs "):
            major, _, minor = mount.split()[2].partition(":")
            devices.add(f"{int(major):02x}:{int(minor):02x}")
    return frozenset(devices)
