"""The limit that will end the run: control groups, the process's own limits, the host's RAM.

With cgroup version 2, a container cannot see the limits of the groups above it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeGuard

from ramledger.ledger import Limit
from ramledger.measure.cgroups import (
    Group,
    Level,
    memory_group,
    parse_table,
    process_file,
    read_number,
    read_table,
)
from ramledger.units import format_bytes

Scope = Literal["cgroup", "process", "host"]
Effect = Literal["kill", "throttle", "fail"]

_NO_LIMIT_BYTES = 1 << 60  # version 1 prints 2^63 rounded down to a page for "none"


@dataclass(frozen=True, slots=True)
class FoundLimit:
    """One limit, the usage it counts, and its effect: kill, throttle, or make malloc fail.

    `usage_bytes` of a control group leaves out inactive file pages, which the kernel drops first.
    """

    bytes: int
    source: str
    usage_bytes: int | None
    scope: Scope
    effect: Effect = "kill"

    @property
    def headroom_bytes(self) -> int | None:
        """Bytes left below the limit; a shared group may have fewer left than a tighter one."""
        return None if self.usage_bytes is None else self.bytes - self.usage_bytes


@dataclass(frozen=True, slots=True)
class OomEvents:
    """How often the kernel killed for memory."""

    oom_kills: int
    source: str


def limits(pid: int, *, root: str = "/") -> tuple[FoundLimit, ...]:
    """Every memory limit a process is under, the tightest first."""
    group = memory_group(pid, root)
    found = [
        *(_group_limits(group) if group else ()),
        *_process_limits(pid, root),
        *_host_limits(root),
    ]
    return tuple(sorted(found, key=lambda limit: limit.bytes))


def tightest(pid: int, root: str = "/") -> Limit | None:
    """The smallest limit that ends a process. The source of RLIMIT_AS says "virtual memory"."""
    for found in limits(pid, root=root):
        if found.effect != "throttle":
            return Limit(found.bytes, found.source)
    return None


def available_bytes(root: str = "/") -> int | None:
    """RAM that the host can still allocate without swapping (MemAvailable)."""
    return _meminfo(root).get("MemAvailable")


def oom_events(pid: int, root: str = "/") -> OomEvents | None:
    """OOM kills in the process's control group, or on the whole host where it has none."""
    group = memory_group(pid, root)
    if group is not None:
        events = _group_oom_events(group)
        if events is not None:
            return events
    kills = read_table(os.path.join(root, "proc/vmstat")).get("oom_kill")
    return None if kills is None else OomEvents(kills, "host (/proc/vmstat)")


def _group_limits(group: Group) -> Iterator[FoundLimit]:
    found = [limit for level in group.levels for limit in _limits_at(group.version, level)]
    yield from found
    if group.version == 1:
        yield from _unseen_parent_limit(group, found)


def _limits_at(version: int, level: Level) -> Iterator[FoundLimit]:
    directory, where = level.directory, level.path
    usage_bytes = _usage_bytes(version, directory)
    if version == 1:
        limit_bytes = read_number(os.path.join(directory, "memory.limit_in_bytes"))
        if _is_limit(limit_bytes):
            yield FoundLimit(limit_bytes, f"cgroup v1 limit of {where}", usage_bytes, "cgroup")
        return
    limit_bytes = read_number(os.path.join(directory, "memory.max"))
    if _is_limit(limit_bytes):
        source = f"cgroup memory.max of {where}{_swap_note(directory)}"
        yield FoundLimit(limit_bytes, source, usage_bytes, "cgroup")
    high_bytes = read_number(os.path.join(directory, "memory.high"))
    if _is_limit(high_bytes):
        source = f"cgroup memory.high of {where} (throttles, does not kill)"
        yield FoundLimit(high_bytes, source, usage_bytes, "cgroup", "throttle")


def _is_limit(size_bytes: int | None) -> TypeGuard[int]:
    return size_bytes is not None and size_bytes < _NO_LIMIT_BYTES


def _usage_bytes(version: int, directory: str) -> int | None:
    name = "memory.usage_in_bytes" if version == 1 else "memory.current"
    charged_bytes = read_number(os.path.join(directory, name))
    if charged_bytes is None:
        return None
    statistics = read_table(os.path.join(directory, "memory.stat"))
    # version 1 prints the group's own pages and, as total_, those of its children too
    droppable = statistics.get("total_inactive_file", statistics.get("inactive_file", 0))
    return max(0, charged_bytes - droppable)


def _swap_note(directory: str) -> str:
    swap_bytes = read_number(os.path.join(directory, "memory.swap.max"))
    if swap_bytes is None:
        return ""
    return f" (and {format_bytes(swap_bytes)} of swap)" if swap_bytes else " (no swap)"


def _unseen_parent_limit(group: Group, found: list[FoundLimit]) -> Iterator[FoundLimit]:
    """A limit of a group that is not mounted here: version 1 shows each group the smallest one."""
    own = group.levels[0].directory
    limit_bytes = read_table(os.path.join(own, "memory.stat")).get("hierarchical_memory_limit")
    if not _is_limit(limit_bytes):
        return
    if all(limit_bytes < limit.bytes for limit in found):
        yield FoundLimit(limit_bytes, "cgroup v1 limit of a parent group", None, "cgroup")


def _process_limits(pid: int, root: str) -> Iterator[FoundLimit]:
    """Limits on address space, which is never less than what is resident."""
    soft_limits = _soft_limits(process_file(pid, "limits", root))
    usage = parse_table(process_file(pid, "status", root))
    for title, name, counted in (
        ("Max address space", "RLIMIT_AS", "VmSize"),
        ("Max data size", "RLIMIT_DATA", "VmData"),
    ):
        limit_bytes = soft_limits.get(title)
        if limit_bytes is not None:
            usage_bytes = usage[counted] * 1024 if counted in usage else None
            source = f"{name} (virtual memory)"
            yield FoundLimit(limit_bytes, source, usage_bytes, "process", "fail")


def _soft_limits(text: str) -> dict[str, int]:
    """The first number of each line of /proc/PID/limits; "unlimited" is left out."""
    values = ((line[:26].strip(), line[26:].split()) for line in text.splitlines())
    return {title: int(row[0]) for title, row in values if row and row[0].isdecimal()}


def _host_limits(root: str) -> Iterator[FoundLimit]:
    memory = _meminfo(root)
    if "MemTotal" in memory:
        total, available = memory["MemTotal"], memory.get("MemAvailable")
        used = None if available is None else total - available
        yield FoundLimit(total, "host RAM", used, "host")
    # in the strict mode the kernel refuses what might not fit: Documentation/mm/overcommit
    is_strict = read_number(os.path.join(root, "proc/sys/vm/overcommit_memory")) == 2
    if is_strict and "CommitLimit" in memory:
        source = "host CommitLimit (virtual memory of all, vm.overcommit_memory=2)"
        used = memory.get("Committed_AS")
        yield FoundLimit(memory["CommitLimit"], source, used, "host", "fail")


def largest_reservation(root: str = "/") -> tuple[int, str] | None:
    """The most that the kernel grants to one mapping, and by which rule; None: any size."""
    memory = _meminfo(root)
    mode = read_number(os.path.join(root, "proc/sys/vm/overcommit_memory"))
    if mode == 2 and "CommitLimit" in memory:
        return memory["CommitLimit"], "CommitLimit, with vm.overcommit_memory = 2"
    if mode == 0 and "MemTotal" in memory:
        # the heuristic refuses obvious overcommits only: more than there is of RAM and swap
        total = memory["MemTotal"] + memory.get("SwapTotal", 0)
        return total, "RAM and swap, with vm.overcommit_memory = 0"
    return None


def _meminfo(root: str) -> dict[str, int]:
    table = read_table(os.path.join(root, "proc/meminfo"))
    return {name: kilobytes * 1024 for name, kilobytes in table.items()}


def _group_oom_events(group: Group) -> OomEvents | None:
    own, where = group.levels[0].directory, group.levels[0].path
    if group.version == 2:
        events = read_table(os.path.join(own, "memory.events"))
        source = f"cgroup memory.events of {where}"
    else:
        events = read_table(os.path.join(own, "memory.oom_control"))
        source = f"cgroup v1 memory.oom_control of {where}"
    return OomEvents(events["oom_kill"], source) if "oom_kill" in events else None
