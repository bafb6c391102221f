"""A snapshot of this process as an event: its owners, containers and live objects."""

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ramledger.event_parts import ContainerContent, TensorflowFacts, TracedFunction, ViewPins
from ramledger.events import BEGINS, UNCLOSED, NamesSnapshotEvent, SnapshotEvent
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.loaded_modules import text_of
from ramledger.interpreter.type_facts import short
from ramledger.ledger import Statement
from ramledger.objects.census.class_growth import CountHistory
from ramledger.objects.claims import CLAIMS
from ramledger.objects.holdings import Container
from ramledger.objects.names.code_sites import (
    lines_that_add_to,
    lines_that_assign,
    lines_that_make,
)
from ramledger.objects.names.paths import Path
from ramledger.objects.names.unclosed_sites import unclosed_sites
from ramledger.objects.names.walk_roots import Root
from ramledger.objects.process_objects import ProcessObjects, read_process_objects
from ramledger.objects.small_containers import capacity_together
from ramledger.statement.outside import bounded
from ramledger.statement.own import quick_statement, statement_of
from ramledger.statement.process_measurement import measure_process
from ramledger.type_ranks import is_role

MAX_CONTAINERS = 25
MAX_WITH_GRAPHS = 5
MAX_SIZES = 25
MAX_USER_CLASSES = 40
MAX_ROLES = 20
MAX_GROWN = 40
MAX_RARE = 60
MAX_COMMON = 10
MAX_LISTED = 200  # of those that snapshots before this one listed
MAX_LARGE = 12
MAX_VIEWS = 5
MAX_SITES = 15
MAX_FOLLOWED = 15
_VARIABLES = "variables/"
WORTH_VIEWS_BYTES = WORTH_WRITERS_BYTES = 1 << 20
VERSIONED = (
    "numpy", "torch", "tensorflow", "keras", "jax", "gymnasium", "gym", "pettingzoo",
    "stable_baselines3", "ray", "matplotlib", "moviepy", "pygame", "optuna", "tensorboardX",
    "wandb", "cv2", "mujoco", "pandas", "trl",
)  # fmt: skip


class TakenSnapshot(NamedTuple):
    """A snapshot: what is recorded, all accounts, and where containers without a limit are."""

    event: SnapshotEvent
    statement: Statement  # without types and facts
    containers: dict[str, str]  # by name, how they are found again


def take_snapshot(
    *,
    generation: int | None,
    phase: str,
    label: str = "",
    count_objects: bool = False,
    watched: Collection[str] = (),
    history: CountHistory | None = None,
    allowance: Allowance | None = None,
) -> TakenSnapshot:
    """A snapshot of this process; `count_objects` finds every array, at several times the cost.

    `history` takes all counts of this snapshot; what it shows to grow is listed. What `allowance`
    leaves no time for is left out.
    """
    # processor time of this thread: what it takes from the program, which holds the GIL else
    started = time.thread_time()
    reading = measure_process(os.getpid())
    followed = {*watched, *_growing(history)}
    view = read_process_objects(
        CLAIMS, objects=count_objects, watched=frozenset(followed), allowance=allowance
    )
    statement = statement_of(reading, view, label)
    live_objects = _chosen_counts(view, watched, history)
    event = SnapshotEvent(
        t=time.monotonic(),
        pid=os.getpid(),
        generation=generation,
        phase=phase,
        label=label,
        statement=_recorded(statement),
        containers=_containers(view),
        pinned_by_views=_views(view),
        live_objects=live_objects,
        first_live_objects=history.first_of(live_objects) if history is not None else {},
        user_classes=tuple(view.user_classes[:MAX_USER_CLASSES]),
        tensors_with_graph=view.graph_tensors,
        graph_depth=view.graph_depth,
        graph_holders=view.graph_holders,
        tensorflow=_tensorflow(view.tensorflow) if view.tensorflow else None,
        watched_paths={n: tuple(paths[:5]) for n, paths in view.watched_paths.items() if paths},
        tracked_objects=view.tracked_objects,
        gc_enabled=gc.isenabled(),
        gc_threshold=gc.get_threshold()[0],
        gc_frozen_objects=gc.get_freeze_count(),
        frame_holders=view.frame_holders,
        record_classes=tuple(view.record_classes[:MAX_USER_CLASSES]),
        code_lines=_code_lines(view, statement),
        versions=loaded_versions(),
        cost_seconds=round(time.thread_time() - started, 4),
    )
    growing = [c for c in event.containers if c.capacity is None and c.length]
    access = {c.path: c.where.access for c in (*view.small_containers, *view.containers)}
    return TakenSnapshot(
        event,
        replace(statement, types=(), facts={}),
        {container.path: access[container.path] for container in growing},
    )


def take_names_snapshot(
    roots: Collection[Root], *, generation: int | None, phase: str
) -> tuple[NamesSnapshotEvent, Statement]:
    """What the user's names and `roots` lead to, at a third of the cost. Nothing is counted."""
    statement, view = quick_statement(*roots)
    kept = replace(statement, types=(), facts={})
    event = NamesSnapshotEvent(
        t=time.monotonic(),
        pid=os.getpid(),
        generation=generation,
        phase=phase,
        statement=replace(bounded(kept), large_objects=(), notes=()),
        containers=_containers(view),
    )
    return event, kept


def _recorded(statement: Statement) -> Statement:
    """As far as a recording keeps it."""
    return replace(
        bounded(statement),
        facts={name: fact for name, fact in statement.facts.items() if name != "containers"},
        large_objects=statement.large_objects[:MAX_LARGE],
        types=statement.types[:MAX_SIZES],
    )


def _tensorflow(facts: Mapping[str, Any]) -> TensorflowFacts:
    return TensorflowFacts(
        graphs=facts["graphs"],
        variables=facts["variables"],
        functions=tuple(
            TracedFunction(row["name"], row["instances"], row["graphs"], tuple(row["varies"]))
            for row in facts["functions"]
        ),
        callers=facts.get("callers", {}),
    )


def loaded_versions() -> dict[str, str]:
    """Versions of Python and of the libraries of this field that the program has loaded."""
    found = {"python": sys.version.split()[0]}
    for name in VERSIONED:
        version = text_of(sys.modules.get(name), "__version__")
        if version:
            found[name] = short(version)
    return found


def _containers(view: ProcessObjects) -> tuple[ContainerContent, ...]:
    """The largest containers, long or short; of equal ones the outer ones first."""
    found = sorted([*view.small_containers, *_by_path(view.containers)], key=lambda c: -c.bytes)
    chosen = found[:MAX_CONTAINERS]
    chosen += [c for c in found[MAX_CONTAINERS:] if c.graphs][:MAX_WITH_GRAPHS]
    return tuple(
        ContainerContent(
            path=c.path,
            type=c.type,
            length=c.length,
            of=c.element_type,
            bytes=c.bytes,
            account=c.account,
            capacity=c.capacity,
            graphs=c.graphs,
            added_in=_writers(c),
        )
        for c in chosen
    )


def _growing(history: CountHistory | None) -> set[str]:
    """Bare names of classes that got more instances: who holds some of them is noted."""
    names = history.rare_but_steady(MAX_FOLLOWED) if history is not None else []
    return {name.rpartition(".")[2] for name in names if "." in name}


def _code_lines(view: ProcessObjects, statement: Statement) -> dict[str, tuple[str, ...]]:
    """By owner and by class of the user: the lines that store in it, or make instances.

    Also where an owner begins, and where instances are opened but not closed.
    """
    owners = [
        entry.account
        for entry in statement.entries
        if entry.account.startswith(_VARIABLES) and entry.resident_bytes >= WORTH_WRITERS_BYTES
    ]
    holders = {p.rpartition("[")[0] for paths in view.watched_paths.values() for p in paths[:5]}
    names = [*owners[:MAX_SITES], *view.graph_holders, *sorted(holders - {""})[:MAX_SITES]]
    found = {name: lines_that_add_to(name) for name in names}
    found |= {f"{BEGINS}{name}": lines_that_assign(name) for name in owners[:MAX_SITES]}
    opened = unclosed_sites(view.counts)
    found |= {f"{UNCLOSED}{kind}": lines for kind, lines in opened.items()}
    classes = sorted(view.user_classes, key=lambda name: -view.counts.get(name, 0))
    found |= {name: lines_that_make(name) for name in classes[:MAX_SITES]}
    return {name: lines for name, lines in found.items() if lines}


def _writers(container: Container) -> tuple[str, ...]:
    is_worth_it = container.bytes >= WORTH_WRITERS_BYTES or container.graphs
    return tuple(lines_that_add_to(container.path)) if is_worth_it else ()


def _by_path(containers: list[Container]) -> list[Container]:
    """Containers with the same path, such as the lists in a dictionary, as one."""
    found: dict[Path, Container] = {}
    for one in containers:
        known = found.setdefault(one.where, one)
        if known is not one:
            found[one.where] = replace(
                known,
                length=known.length + one.length,
                bytes=known.bytes + one.bytes,
                capacity=capacity_together(known.capacity, one.capacity),
                graphs=known.graphs + one.graphs,
            )
    return list(found.values())


def _views(view: ProcessObjects) -> dict[str, ViewPins]:
    """By account: what is kept alive by views of small parts only, and one of them."""
    found: dict[str, ViewPins] = {}
    for holding in view.holdings:
        pinned = [block.storage for block in holding.blocks if block.storage.pinned_by_view]
        total = sum(storage.reserved_bytes for storage in pinned)
        if total >= WORTH_VIEWS_BYTES:
            largest = max(pinned, key=lambda storage: storage.reserved_bytes)
            found[holding.account] = ViewPins(
                bytes=total,
                of_bytes=sum(block.storage.reserved_bytes for block in holding.blocks),
                count=len(pinned),
                type=largest.type,
                shape=tuple(largest.shape),
                largest_bytes=largest.reserved_bytes,
            )
    largest_first = sorted(found, key=lambda account: -found[account].bytes)
    return {account: found[account] for account in largest_first[:MAX_VIEWS]}


def _chosen_counts(
    view: ProcessObjects, watched: Collection[str], history: CountHistory | None
) -> dict[str, int]:
    """The user's classes, roles of frameworks, watched ones, those that grow, the commonest.

    What one snapshot listed the next ones list, too, so that it can be followed.
    """
    if view.why_not_counted:
        return {}
    counts = Counter(view.counts)
    names = view.user_classes[:MAX_USER_CLASSES]
    names += [name for name in counts if is_role(name)][:MAX_ROLES]
    names += [name for name in counts if name.rpartition(".")[2] in watched]
    if history is not None:
        history.add(counts)
        names += history.most_grown(MAX_GROWN) + history.rare_but_steady(MAX_RARE)
        names += list(history.listed)[:MAX_LISTED]
    names += [name for name, _ in counts.most_common(MAX_COMMON)]
    return {name: counts[name] for name in dict.fromkeys(names)}
