"""The control groups of a process, as folders: version 1, 2 or both.

All paths are below `root`, so that a copy of another machine's tree can be read.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ramledger.descriptors import read_kernel_file
from ramledger.measure import proc


@dataclass(frozen=True, slots=True)
class Level:
    """One control group on the way up: its path as the kernel names it, and its directory."""

    path: str
    directory: str


@dataclass(frozen=True, slots=True)
class Group:
    """The control groups a process is in, from its own (`levels[0]`) up to the mount."""

    version: Literal[1, 2]
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class _Mount:
    version: Literal[1, 2]
    group: str
    point: str
    controllers: frozenset[str]


def memory_group(pid: int, root: str = "/") -> Group | None:
    """The control group that accounts the memory of a process; None without one.

    A version 1 hierarchy with the memory controller takes it away from version 2.
    """
    return group_of(pid, 1, root) or group_of(pid, 2, root)


def group_of(pid: int, version: Literal[1, 2], root: str = "/") -> Group | None:
    """The memory group of version 1, or the group of version 2, that holds a process."""
    path = _path_of(pid, version, root)
    if path is None:
        return None
    mounts = [mount for mount in _mounts(root) if mount.version == version]
    if version == 1:
        mounts = [mount for mount in mounts if "memory" in mount.controllers]
    # a group may be mounted more than once: take the mount that shows most parent groups
    levels = max((_levels(path, mount, root) for mount in mounts), key=len, default=())
    return Group(version, levels) if levels else None


def read_file(path: str) -> str | None:
    """The content of a small kernel file; None if it does not exist or cannot be read."""
    try:
        return read_kernel_file(path).decode("utf-8", "replace")
    except OSError:
        return None


def read_number(path: str) -> int | None:
    """The number in a kernel file; None for "max", for other text and without the file."""
    text = (read_file(path) or "").strip()
    return int(text) if text.isdecimal() else None


def read_table(path: str) -> dict[str, int]:
    """A kernel file of `name number` lines; empty without the file."""
    return parse_table(read_file(path) or "")


def parse_table(text: str) -> dict[str, int]:
    """Lines of `name number` or `name: number unit`; other lines are left out."""
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) >= 2 and row[1].isdecimal()}


def process_file(pid: int, name: str, root: str = "/") -> str:
    """/proc/PID/`name` below `root`; our errors if there is no such process."""
    if root == "/":
        return proc.read_text(pid, name)
    try:
        return read_kernel_file(os.path.join(root, "proc", str(pid), name)).decode("utf-8")
    except OSError as error:
        raise proc.measure_error(pid, error, name) from error


def _path_of(pid: int, version: int, root: str) -> str | None:
    """The group's path in /proc/PID/cgroup: lines of hierarchy:controllers:path, 0:: is v2."""
    for line in process_file(pid, "cgroup", root).splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        is_wanted = hierarchy == "0" if version == 2 else "memory" in controllers.split(",")
        if is_wanted:
            return path.removesuffix(" (deleted)")
    return None


def _mounts(root: str) -> Iterator[_Mount]:
    """Mounts of control groups as this process sees them: proc(5), mountinfo."""
    text = read_file(os.path.join(root, "proc/self/mountinfo")) or ""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        version: Literal[1, 2] = 2 if kind[0] == "cgroup2" else 1
        controllers = frozenset(kind[2].split(","))
        yield _Mount(version, _unescaped(fields[3]), _unescaped(fields[4]), controllers)


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def _levels(path: str, mount: _Mount, root: str) -> tuple[Level, ...]:
    """The groups from `path` up to the top of a mount that exist there."""
    top = _parts(mount.group)
    parts = _parts(path)
    below = parts[len(top) :]
    # Paths are relative to the cgroup namespace of the reader: ".." lies outside of it, and its
    # limits cannot be seen. A container that shares the host's namespace sees its own long path,
    # and that group mounted as the top.
    if parts[: len(top)] != top or ".." in below:
        return ()
    point = os.path.join(root, mount.point.lstrip("/"))
    levels = (
        Level("/" + "/".join(top + below[:depth]), os.path.join(point, *below[:depth]))
        for depth in range(len(below), -1, -1)
    )
    return tuple(level for level in levels if os.path.isdir(level.directory))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
