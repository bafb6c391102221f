"""Deep snapshots: owners, containers and live counts, as one event of a recording."""

import gc
import os
import time
from collections import Counter
from collections.abc import Collection
from typing import Any

from ramledger.account.reading import read_process
from ramledger.account.statement import statement_of
from ramledger.inside.claims import CLAIMS
from ramledger.inside.view import InsideView, look_inside

MAX_ACCOUNTS = 40
MAX_CONTAINERS = 25
MAX_SIZES = 25
MAX_USER_CLASSES = 40
MAX_GROWN = 40
MAX_COMMON = 10
MAX_LARGE = 12


def deep_event(
    *,
    generation: int | None,
    phase: str,
    label: str = "",
    census: bool = False,
    watched: Collection[str] = (),
    baseline: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Look into this process; `census` also finds every array, at several times the cost.

    `baseline` is filled with all counts at the first call; later, what has grown since is listed.
    """
    # processor time of this thread: what it takes from the program, which holds the GIL else
    started = time.thread_time()
    reading = read_process(os.getpid())
    view = look_inside(CLAIMS, objects=census, watched=watched)
    document = statement_of(reading, view, label).to_dict()
    types = document.pop("types")
    containers = document["facts"].pop("containers", [])
    document["accounts"] = bounded(document["accounts"])
    document["large_objects"] = document["large_objects"][:MAX_LARGE]
    return {
        "event": "snapshot",
        "mono": time.monotonic(),
        "generation": generation,
        "phase": phase,
        "label": label,
        "statement": document,
        "containers": containers[:MAX_CONTAINERS],
        "counts": _chosen_counts(view, watched, baseline),
        "user_classes": view.user_classes[:MAX_USER_CLASSES],
        "sizes": {row["type"]: [row["count"], row["bytes"]] for row in types[:MAX_SIZES]},
        "tensors_with_graph": view.graph_tensors,
        "watched": {name: paths[:5] for name, paths in view.watched_paths.items()},
        "tracked_objects": view.tracked_objects,
        "gc_enabled": gc.isenabled(),
        "cost_seconds": round(time.thread_time() - started, 4),
    }


def _chosen_counts(
    view: InsideView, watched: Collection[str], baseline: dict[str, int] | None
) -> dict[str, int]:
    """The user's classes, watched ones, those that grew most since the baseline, the commonest."""
    counts = Counter(view.counts)
    names = view.user_classes[:MAX_USER_CLASSES]
    names += [name for name in counts if name.rpartition(".")[2] in watched]
    if baseline:
        grown = Counter({n: c - baseline.get(n, 0) for n, c in counts.items()})
        names += [name for name, growth in grown.most_common(MAX_GROWN) if growth > 0]
    elif baseline is not None:
        baseline.update(counts)
    names += [name for name, _ in counts.most_common(MAX_COMMON)]
    return {name: counts[name] for name in dict.fromkeys(names)}


def bounded(accounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The largest accounts, and the rest as one: the sum stays what it was."""
    rest = accounts[MAX_ACCOUNTS:]
    if not rest:
        return accounts
    other = {
        "account": "other accounts",
        "resident_bytes": sum(account["resident_bytes"] for account in rest),
        "reserved_bytes": sum(account["reserved_bytes"] for account in rest),
        "source": rest[0]["source"],
        "objects": None,
        "fill": None,
        "note": f"{len(rest)} accounts",
    }
    return [*accounts[:MAX_ACCOUNTS], other]
