"""Deep snapshots: owners, containers and live counts, as one event of a recording."""

import gc
import os
import time
from collections.abc import Collection
from typing import Any

from ramledger.account.reading import read_process
from ramledger.account.statement import statement_of
from ramledger.inside.claims import CLAIMS
from ramledger.inside.view import look_inside

MAX_ACCOUNTS = 40
MAX_CONTAINERS = 25
MAX_SIZES = 25
MAX_LARGE = 12


def deep_event(
    *,
    generation: int | None,
    phase: str,
    label: str = "",
    census: bool = False,
    watched: Collection[str] = (),
) -> dict[str, Any]:
    """Look into this process; `census` also finds every array, at several times the cost."""
    # processor time of this thread: what it takes from the program, which holds the GIL else
    started = time.thread_time()
    reading = read_process(os.getpid())
    view = look_inside(CLAIMS, objects=census, watched=watched)
    document = statement_of(reading, view, label).to_dict()
    types = document.pop("types")
    containers = document["facts"].pop("containers", [])
    document["accounts"] = _bounded(document["accounts"])
    document["large_objects"] = document["large_objects"][:MAX_LARGE]
    return {
        "event": "snapshot",
        "mono": time.monotonic(),
        "generation": generation,
        "phase": phase,
        "label": label,
        "statement": document,
        "containers": containers[:MAX_CONTAINERS],
        "counts": view.counts,
        "sizes": {row["type"]: [row["count"], row["bytes"]] for row in types[:MAX_SIZES]},
        "tensors_with_graph": view.graph_tensors,
        "watched": {name: paths[:5] for name, paths in view.watched_paths.items()},
        "tracked_objects": view.tracked_objects,
        "gc_enabled": gc.isenabled(),
        "cost_seconds": round(time.thread_time() - started, 4),
    }


def _bounded(accounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
