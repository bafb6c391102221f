"""Lists of small Python objects that forked workers copy by reading them.

Reading an object writes its reference count, so every page of such a list becomes the worker's own:
the dataset of a DataLoader is the usual case. An array is read without a write.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ramledger.diagnose.advice import WORKER_OWN_BYTES, WORTH_BYTES, Advice
from ramledger.diagnose.code_text import CodeLine
from ramledger.event_parts import ContainerContent
from ramledger.ledger import Statement
from ramledger.run.model import Run
from ramledger.units import format_bytes

_SMALL = ("tuple", "list", "dict", "str", "bytes", "int", "float", "set")
_CONTENT: dict[str, type[str] | type[int]] = {"type": str, "length": int, "of": str, "bytes": int}
_FEWEST = 10_000  # elements
_EXPLAINS = 0.5  # of what a worker copied: less, and something else is copied, too
_STARTED_ANEW = ("multiprocessing.forkserver", "multiprocessing.spawn")


@dataclass(frozen=True, slots=True)
class ForkedWorker:
    """`copied_bytes`: what it has of its own beyond what a forked worker starts with."""

    pid: int
    copied_bytes: int


def forked_workers(run: Run) -> list[ForkedWorker]:
    """Workers that the process that trains has forked, and what they copied as long as they ran."""
    return [
        ForkedWorker(row.pid, max(0, row.private_bytes - WORKER_OWN_BYTES))
        for row in run.processes.rows.values()
        if row.parent_pid == run.main_pid and row.inherited_bytes and row.private_bytes
    ]


def forked_children(statement: Statement) -> list[ForkedWorker]:
    """The same of a live process: its children that run the same command."""
    return [
        ForkedWorker(child.pid, max(0, child.uss_bytes - WORKER_OWN_BYTES))
        for child in statement.children
        if child.command == statement.command
        and not any(how in child.command for how in _STARTED_ANEW)
    ]


def copied_in_run(run: Run) -> list[Advice]:
    """By the containers that the largest snapshot of the parent names."""
    snapshots = run.main_snapshots
    if snapshots is None:
        return []
    containers = (snapshots.peak or snapshots.now).containers
    found = copied_lists(containers, forked_workers(run))
    return [] if found is None else [found]


def copied_now(statement: Statement) -> list[Advice]:
    """By the containers of a live statement from inside, with its children."""
    containers = [
        ContainerContent(one["path"], *(one.get(name, kind()) for name, kind in _CONTENT.items()))
        for one in statement.facts.get("containers") or ()
    ]
    found = copied_lists(containers, forked_children(statement))
    return [] if found is None else [found]


def copied_lists(
    containers: Sequence[ContainerContent], workers: Sequence[ForkedWorker]
) -> Advice | None:
    """What to pack, where a container explains what workers copied."""
    copying = [one for one in workers if one.copied_bytes >= WORTH_BYTES]
    lists = [one for one in containers if one.of in _SMALL and one.length >= _FEWEST]
    if not copying or not lists:
        return None
    largest = max(lists, key=lambda one: one.bytes)
    mean = sum(one.copied_bytes for one in copying) // len(copying)
    if largest.bytes < max(WORTH_BYTES, _EXPLAINS * mean):
        return None
    many = "1 forked worker has" if len(copying) == 1 else f"{len(copying)} forked workers have"
    return Advice(
        "pack what forked workers read",
        f"{many} {format_bytes(mean)} of shared pages copied, each: reading a Python object writes "
        f"its reference count, and {largest.path} has {largest.length:,} × {largest.of}, "
        f"{format_bytes(largest.bytes)}",
        (_packed(largest), "rows of one dtype: an array of objects is copied as the list was"),
        sum(min(one.copied_bytes, largest.bytes) for one in copying),
        at_most=True,
    )


def _packed(container: ContainerContent) -> str:
    """The line in the user's own names where it is known which one makes the list."""
    for line in container.added_in:
        code = CodeLine(line)
        made = code.statement
        if isinstance(made, ast.Assign) and len(made.targets) == 1:
            target, value = code.text(made.targets[0]), code.text(made.value)
            return f"{code.place}: {target} = {_array_of(container, value)}"
    name = container.path.rpartition(":")[2]
    return f"where {name} is filled: {name} = {_array_of(container, name)}"


def _array_of(container: ContainerContent, value: str) -> str:
    if container.type == "dict":
        name = container.path.rpartition(".")[2].rpartition(":")[2]
        return f"np.array(list({value}.values())), with the row of each key in order of {name}"
    if container.of == "dict":
        return f"one array a key: {{key: np.array([row[key] for row in {value}]) for key in …}}"
    if container.of in ("str", "bytes"):
        return f"np.array({value}, dtype='{'U' if container.of == 'str' else 'S'}')"
    if container.of == "set":
        return "np.concatenate of its sets, and np.cumsum of their lengths"
    return f"np.array({value})"
