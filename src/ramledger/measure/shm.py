"""Shared memory of the machine: /dev/shm, memfds, System V segments, and who maps them.

It outlives the process that made it: a segment that no process maps takes RAM until it is removed,
and is in no process's RSS.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ramledger.descriptors import read_kernel_file
from ramledger.errors import MeasureError, NotPermittedError
from ramledger.measure import proc
from ramledger.measure.mappings import DELETED, Mapping, read_mappings

SHM_DIRECTORY = "/dev/shm"

_BLOCK_BYTES = 512  # unit of st_blocks: stat(2)
_MARKS = (b"/dev/shm/", b"/memfd:", b"/SYSV", b"/dev/zero (deleted)")


@dataclass(frozen=True, slots=True)
class SharedSegment:
    """One piece of shared memory.

    `resident_bytes` counts swapped pages, too. For a segment without a name that may not be
    inspected it is a lower bound: the largest part that one process has mapped.
    """

    name: str
    resident_bytes: int
    size_bytes: int
    mapped_by: tuple[int, ...]
    owner_id: int
    opened_by: tuple[int, ...] = ()
    unreadable_processes: int = 0

    @property
    def is_orphan(self) -> bool:
        """No readable process holds it; `unreadable_processes` could not be checked."""
        return not (self.mapped_by or self.opened_by)


@dataclass(frozen=True, slots=True)
class _Identity:
    """Identifies the file behind a mapping."""

    device: str
    inode: int


@dataclass(slots=True)
class _Found:
    name: str
    resident_bytes: int = 0
    size_bytes: int = 0
    owner_id: int = -1
    mapped_by: set[int] = field(default_factory=set)
    opened_by: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of /proc/PID/maps that shows shared memory."""

    pid: int
    addresses: str
    identity: _Identity
    path: str


def shared_segments() -> list[SharedSegment]:
    """All shared memory that this user can see, largest first."""
    proc.require_linux()
    found = dict(_files(SHM_DIRECTORY)) | dict(_system_v())
    readable, unreadable = [], 0
    for pid in proc.process_ids():
        try:
            lines = list(_shared_lines(pid))
        except NotPermittedError:
            unreadable += 1
            continue
        except MeasureError:  # ended meanwhile
            continue
        readable.append(pid)
        for line in lines:
            if line.identity not in found:
                found[line.identity] = _nameless(line)
            found[line.identity].mapped_by.add(pid)
    _find_openers([f for f in found.values() if not f.mapped_by], readable)
    return _sorted(found.values(), unreadable)


def _sorted(found: Iterable[_Found], unreadable: int) -> list[SharedSegment]:
    segments = [
        SharedSegment(
            name=one.name,
            resident_bytes=one.resident_bytes,
            size_bytes=one.size_bytes,
            mapped_by=tuple(sorted(one.mapped_by)),
            owner_id=one.owner_id,
            opened_by=tuple(sorted(one.opened_by)),
            unreadable_processes=unreadable,
        )
        for one in found
    ]
    return sorted(segments, key=lambda s: (-s.resident_bytes, s.name))


def _files(directory: str) -> Iterator[tuple[_Identity, _Found]]:
    pending = [directory]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:  # removed meanwhile, or a directory of another user
            continue
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(facts.st_mode):
                pending.append(entry.path)
            elif stat.S_ISREG(facts.st_mode):
                yield _identity(facts), _from_stat(proc.printable(os.fsencode(entry.path)), facts)


def _system_v() -> Iterator[tuple[_Identity, _Found]]:
    """System V segments; /proc/PID/maps prints their shmid as the inode."""
    try:
        text = read_kernel_file(f"{proc.PROC}/sysvipc/shm").decode("ascii")
        names, *rows = (line.split() for line in text.splitlines())
    except (OSError, ValueError):
        return
    for row in rows:
        facts = dict(zip(names, row, strict=False))
        yield (
            _Identity("SYSV", int(facts["shmid"])),
            _Found(
                name=f"SYSV{int(facts['key']) & 0xFFFFFFFF:08x} (shmid {facts['shmid']})",
                resident_bytes=int(facts.get("rss", "0")),
                size_bytes=int(facts["size"]),
                owner_id=int(facts["uid"]),
            ),
        )


def _shared_lines(pid: int) -> Iterator[_Line]:
    data = proc.read_bytes(pid, "maps")
    if not any(mark in data for mark in _MARKS):
        return
    for line in data.split(b"\n"):
        if not any(mark in line for mark in _MARKS):
            continue
        addresses, _, _, device, inode, path = proc.printable(line).split(None, 5)
        if path.startswith("/SYSV"):
            device = "SYSV"
        yield _Line(pid, addresses, _Identity(device, int(inode)), path)


def _nameless(line: _Line) -> _Found:
    """A memfd, an unlinked file or a shared anonymous mapping: visible only where it is mapped."""
    name = line.path.removesuffix(DELETED) if line.path.startswith("/memfd:") else line.path
    try:
        # needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN: proc_pid_map_files(5)
        facts = os.stat(f"{proc.PROC}/{line.pid}/map_files/{line.addresses}")
    except OSError:
        return _from_mappings(name, line)
    return _from_stat(name, facts)


def _from_mappings(name: str, line: _Line) -> _Found:
    try:
        mappings = [m for m in read_mappings(line.pid) if _is_of(m, line.identity)]
    except MeasureError:
        mappings = []
    return _Found(
        name=name,
        resident_bytes=sum(m.rss_bytes for m in mappings),
        size_bytes=max((m.offset + m.size_bytes for m in mappings), default=0),
    )


def _is_of(mapping: Mapping, identity: _Identity) -> bool:
    return mapping.inode == identity.inode and identity.device in (mapping.device, "SYSV")


def _from_stat(name: str, facts: os.stat_result) -> _Found:
    return _Found(name, facts.st_blocks * _BLOCK_BYTES, facts.st_size, facts.st_uid)


def _identity(facts: os.stat_result) -> _Identity:
    device = facts.st_dev
    return _Identity(f"{os.major(device):02x}:{os.minor(device):02x}", facts.st_ino)


def _find_openers(unmapped: list[_Found], pids: Iterable[int]) -> None:
    """A file that is open but not mapped is in use, too: torch passes on such descriptors."""
    by_name = {one.name: one for one in unmapped if one.name.startswith("/")}
    if not by_name:
        return
    for pid in pids:
        directory = f"{proc.PROC}/{pid}/fd"
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            try:
                target = proc.printable(os.fsencode(os.readlink(f"{directory}/{name}")))
            except OSError:
                continue
            if target in by_name:
                by_name[target].opened_by.add(pid)
