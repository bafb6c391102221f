"""What one look at a large heap costs, by us and by others, measured in the process itself.

Run by path in the program, see `call` in tests/programs/holding.py.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

Cost = dict[str, float]


def ramledger_costs(roots: Mapping[str, Any]) -> Cost:
    """A whole statement: owners, census, page table, books."""
    from ramledger.statement.own import own_statement

    first = _cost_of(own_statement)
    again = min(_cost_of(own_statement)["seconds"] for _ in range(2))
    return first | {"seconds": min(first["seconds"], again)}


def counter_costs(roots: Mapping[str, Any]) -> Cost:
    costs = [_cost_of(lambda: Counter(map(type, gc.get_objects()))) for _ in range(3)]
    return min(costs, key=lambda cost: cost["seconds"])


def objgraph_costs(roots: Mapping[str, Any]) -> Cost:
    import objgraph

    return _cost_of(lambda: objgraph.most_common_types(limit=20))


def guppy_costs(roots: Mapping[str, Any]) -> Cost:
    from guppy import hpy

    heap = hpy()
    found: list[Any] = []
    cost = _cost_of(lambda: found.append(heap.heap()))
    rows = _cost_of(lambda: found.append(str(found[0].bytype)))
    return {
        "seconds": cost["seconds"] + rows["seconds"],
        "peak_bytes": cost["peak_bytes"] + rows["peak_bytes"],
        "objects": found[0].count,
    }


def muppy_costs(roots: Mapping[str, Any]) -> Cost:
    from pympler import muppy, summary

    return _cost_of(lambda: summary.summarize(muppy.get_objects()))


def asizeof_costs(roots: Mapping[str, Any]) -> Cost:
    from pympler import asizeof

    return _cost_of(lambda: asizeof.asizeof(roots["made"]))


def _cost_of(look: Callable[[], object]) -> Cost:
    """CPU seconds, and how far RSS rose above what it was."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark starts anew
    before = _status_bytes("VmRSS:")
    started = time.process_time()
    look()
    seconds = time.process_time() - started
    return {"seconds": seconds, "peak_bytes": _status_bytes("VmHWM:") - before}


def _status_bytes(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))
