"""Thread stacks among the mappings: how much they reserve, and how little of it is touched."""

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ramledger.errors import MeasureError, NotPermittedError
from ramledger.measure import proc
from ramledger.measure.mappings import Mapping, MappingKind

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20
_LARGEST_GUARD_BYTES = _MIB
_SMALLEST_STACK_BYTES = 16 << 10  # PTHREAD_STACK_MIN
_UNLIMITED_STACK_BYTES = 2 * _MIB  # what glibc takes where RLIMIT_STACK is unlimited
_ARENA_BYTES = 64 * _MIB  # HEAP_MAX_SIZE of glibc's malloc; a heap is aligned to it


@dataclass(frozen=True, slots=True)
class ThreadStacks:
    """All thread stacks, the main one and those kept for reuse included.

    `starts` are those of mappings that are stacks from end to end; `resident_bytes` is their RSS.
    `parts` are stacks inside a larger mapping, where the kernel merged one with its neighbor:
    they are counted and reserved; only the page table says how much of them is resident.
    """

    count: int
    reserved_bytes: int
    resident_bytes: int
    starts: frozenset[int]
    parts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Private anonymous memory that may be a stack, with the evidence for it."""

    mapping: Mapping
    guard_bytes: int
    pointers: int
    is_marked: bool

    @property
    def is_arena(self) -> bool:
        """A malloc arena: the inaccessible range below is the end of another arena, not a guard."""
        return self.mapping.start % _ARENA_BYTES == 0 and not self.pointers


def thread_stacks(pid: int, mappings: Sequence[Mapping], *, thread_count: int) -> ThreadStacks:
    """Find the thread stacks; some evidence needs the right to trace the process."""
    default_bytes = _default_stack_bytes(pid)
    candidates = list(_candidates(mappings, sorted(_stack_pointers(pid))))
    chosen = [c for c in candidates if _is_certain(c)]
    # if the kernel marks stacks, memory without a mark is not one
    marks = any(c.is_marked for c in chosen)
    likely = [
        c
        for c in candidates
        if not _is_certain(c) and (c.is_marked or not marks) and _is_likely(c, default_bytes)
    ]
    likely.sort(key=lambda c: not _has_default_size(c, default_bytes))
    main = [m for m in mappings if m.kind is MappingKind.STACK]
    missing = thread_count - len(main) - sum(_stacks_in(c, default_bytes) for c in chosen)
    for candidate in likely:  # no more than there are threads
        if missing > 0:
            chosen.append(candidate)
            missing -= _stacks_in(candidate, default_bytes)
    return _summed(main, chosen, default_bytes)


def _summed(
    main: Sequence[Mapping], threads: Sequence[_Candidate], default_bytes: int
) -> ThreadStacks:
    whole, parts, count = list(main), [], len(main)
    for candidate in threads:
        mapping = candidate.mapping
        if _is_merged(candidate, default_bytes):
            parts.append((mapping.start, mapping.start + default_bytes))
            count += 1
        else:
            whole.append(mapping)
            count += _stacks_in(candidate, default_bytes)
    return ThreadStacks(
        count=count,
        reserved_bytes=sum(m.size_bytes for m in whole) + sum(stop - at for at, stop in parts),
        resident_bytes=sum(m.rss_bytes for m in whole),
        starts=frozenset(m.start for m in whole),
        parts=tuple(parts),
    )


def _candidates(mappings: Sequence[Mapping], pointers: Sequence[int]) -> Iterator[_Candidate]:
    below: Mapping | None = None
    for mapping in mappings:
        if _may_be_stack(mapping):
            first = bisect_left(pointers, mapping.start)
            yield _Candidate(
                mapping,
                guard_bytes=_guard_bytes(below, mapping),
                pointers=bisect_left(pointers, mapping.stop) - first,
                is_marked=_is_marked(mapping),
            )
        below = mapping


def _may_be_stack(mapping: Mapping) -> bool:
    return (
        mapping.permissions in ("rw-p", "rwxp")
        and mapping.inode == 0
        and mapping.kind is MappingKind.ANONYMOUS
        and mapping.size_bytes >= _SMALLEST_STACK_BYTES
    )


def _guard_bytes(below: Mapping | None, mapping: Mapping) -> int:
    if below is None or below.stop != mapping.start or not below.is_guard:
        return 0
    return below.size_bytes if below.size_bytes <= _LARGEST_GUARD_BYTES else 0


def _is_marked(mapping: Mapping) -> bool:
    """MAP_STACK sets VM_NOHUGEPAGE since Linux 6.7, and so keeps stacks apart from other memory;
    glibc names them where its tunable glibc.mem.decorate_maps is on, and Android always."""
    return "nh" in mapping.flags.split() or "stack" in mapping.path


def _is_certain(candidate: _Candidate) -> bool:
    """At least two of three: a mark, a guard below, a stack pointer inside."""
    evidence = (candidate.is_marked, candidate.guard_bytes > 0, candidate.pointers > 0)
    return sum(evidence) >= 2


def _is_likely(candidate: _Candidate, default_bytes: int) -> bool:
    """As large as a stack, or larger: the kernel may have merged it with its neighbor."""
    size = candidate.mapping.size_bytes
    if candidate.is_marked:
        # since glibc 2.42 a guard is not a separate mapping, and neighboring stacks are one mapping
        return size % (default_bytes + _PAGE_BYTES) == 0
    return (
        candidate.guard_bytes > 0
        and not candidate.is_arena
        and (size + candidate.guard_bytes >= default_bytes or _has_round_size(candidate))
    )


def _has_default_size(candidate: _Candidate, default_bytes: int) -> bool:
    size = candidate.mapping.size_bytes
    return default_bytes in (size, size + candidate.guard_bytes)


def _has_round_size(candidate: _Candidate) -> bool:
    """Whole MiB, with or without the guard: a size that a program would ask for."""
    size = candidate.mapping.size_bytes
    return size % _MIB == 0 or (size + candidate.guard_bytes) % _MIB == 0


def _is_merged(candidate: _Candidate, default_bytes: int) -> bool:
    """Larger than a stack, not of a round size, and without a mark that prevents merging."""
    return (
        not candidate.is_marked
        and candidate.mapping.size_bytes > default_bytes
        and not _has_round_size(candidate)
    )


def _stacks_in(candidate: _Candidate, default_bytes: int) -> int:
    if candidate.guard_bytes:
        return 1
    by_size = candidate.mapping.size_bytes // (default_bytes + _PAGE_BYTES)
    return max(1, candidate.pointers, by_size)


def _default_stack_bytes(pid: int) -> int:
    try:
        limits = proc.read_text(pid, "limits")
    except MeasureError:
        limits = ""
    for line in limits.splitlines():
        if line.startswith("Max stack size"):
            soft = line.removeprefix("Max stack size").split()[0]
            return int(soft) if soft.isdecimal() else _UNLIMITED_STACK_BYTES
    return 8 * _MIB


def _stack_pointers(pid: int) -> Iterator[int]:
    """Stack pointers of threads that wait in the kernel; needs the right to trace the process.

    Those of running threads are not available: proc_pid_syscall(5).
    """
    for thread in proc.thread_ids(pid):
        try:
            words = proc.read_bytes(pid, f"task/{thread}/syscall").split()
        except NotPermittedError:
            return
        except MeasureError:  # the thread ended, or the kernel has no such file
            continue
        if len(words) >= 3:
            yield int(words[-2], 16)
