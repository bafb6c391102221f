"""A process and the processes it started, from /proc."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ramledger.errors import MeasureError
from ramledger.measure import proc


@dataclass(frozen=True, slots=True)
class ProcessNode:
    """A process with its children, which are in the order of their pids."""

    pid: int
    children: tuple["ProcessNode", ...] = ()


def process_tree(pid: int) -> ProcessNode:
    """The process with all its descendants that live at this moment."""
    proc.require_linux()
    proc.read_stat(pid)  # raises if there is no such process
    children_of = _children_files if _has_children_files(pid) else _children_by_parent()
    return _grow(pid, children_of, seen={pid})


def descendants(pid: int) -> tuple[int, ...]:
    """The pids of all descendants, parents before their children."""
    found: list[int] = []
    level = list(process_tree(pid).children)
    while level:
        found += [node.pid for node in level]
        level = [child for node in level for child in node.children]
    return tuple(found)


ChildrenOf = Callable[[int], Sequence[int]]


def _grow(pid: int, children_of: ChildrenOf, seen: set[int]) -> ProcessNode:
    # a pid that is reused meanwhile must not make a cycle: each is visited once
    fresh = [child for child in sorted(children_of(pid)) if child not in seen]
    seen.update(fresh)
    return ProcessNode(pid, tuple(_grow(child, children_of, seen) for child in fresh))


def _has_children_files(pid: int) -> bool:
    """Only kernels built with CONFIG_PROC_CHILDREN have them."""
    try:
        proc.read_bytes(pid, f"task/{pid}/children")
    except MeasureError:
        return False
    return True


def _children_files(pid: int) -> Sequence[int]:
    children: list[int] = []
    try:
        for thread in proc.thread_ids(pid):
            children += map(int, proc.read_bytes(pid, f"task/{thread}/children").split())
    except MeasureError:  # ended meanwhile
        pass
    return children


def _children_by_parent() -> ChildrenOf:
    children: dict[int, list[int]] = {}
    for pid in proc.process_ids():
        try:
            parent = proc.read_stat(pid).parent_pid
        except MeasureError:
            continue
        children.setdefault(parent, []).append(pid)
    return lambda pid: children.get(pid, ())
