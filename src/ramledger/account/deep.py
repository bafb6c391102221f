"""Deep snapshots: owners, containers and live counts, as one event of a recording."""

import gc
import os
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ramledger.account.reading import read_process
from ramledger.account.statement import statement_of
from ramledger.inside.census import has_graph
from ramledger.inside.claims import CLAIMS
from ramledger.inside.roots import is_user_type
from ramledger.inside.storage import array_kind
from ramledger.inside.typenames import package_and_name, type_name
from ramledger.inside.view import look_inside

MAX_ACCOUNTS = 40
MAX_CONTAINERS = 25
MAX_COUNTS = 25
MAX_USER_CLASSES = 40
MAX_LARGE = 12
MAX_TENSORS = 20_000


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """How many objects live, of which types."""

    tracked: int
    by_type: dict[str, int]
    tensors_with_graph: int


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
    counts = live_counts(watched)
    return {
        "event": "snapshot",
        "mono": time.monotonic(),
        "generation": generation,
        "phase": phase,
        "label": label,
        "statement": document,
        "containers": containers[:MAX_CONTAINERS],
        "counts": counts.by_type,
        "sizes": {row["type"]: [row["count"], row["bytes"]] for row in types[:MAX_COUNTS]},
        "tensors_with_graph": counts.tensors_with_graph,
        "watched": {name: paths[:5] for name, paths in view.watched_paths.items()},
        "tracked_objects": counts.tracked,
        "gc_enabled": gc.isenabled(),
        "cost_seconds": round(time.thread_time() - started, 4),
    }


def live_counts(watched: Collection[str] = ()) -> LiveCounts:
    """Live instances: the user's classes, watched ones, and the most numerous others."""
    objects = gc.get_objects()
    counts = Counter(map(type, objects))
    kinds = {kind for kind in counts if array_kind(kind) == "torch"}
    tensors = [obj for obj in objects if type(obj) in kinds][:MAX_TENSORS] if kinds else []
    tracked = len(objects)
    del objects
    users = {t: n for t, n in counts.items() if t.__name__ in watched or is_user_type(t)}
    chosen = dict(Counter(users).most_common(MAX_USER_CLASSES))
    others = Counter({t: n for t, n in counts.items() if package_and_name(t)[0] != "ramledger"})
    chosen |= dict(others.most_common(MAX_COUNTS))
    chosen |= {kind: counts[kind] for kind in kinds}
    return LiveCounts(
        tracked,
        {type_name(kind): count for kind, count in chosen.items()},
        sum(map(has_graph, tensors)),
    )


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
