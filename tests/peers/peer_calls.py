"""What other tools say inside a program, asked there by `call`: bytes in all, and of the replay.

Run by path in the program itself, so nothing of ours is imported here.
"""

import gc
import sys
import tracemalloc
from collections.abc import Mapping
from typing import Any

Said = dict[str, int]


def tracemalloc_says(roots: Mapping[str, Any]) -> Said:
    """Started with the interpreter (-X tracemalloc)."""
    traces = tracemalloc.take_snapshot().traces
    sizes = [trace.size for trace in traces]
    return {"bytes": sum(sizes), "replay_bytes": max(sizes)}


def guppy_says(roots: Mapping[str, Any]) -> Said:
    """The whole heap by type; a type has no owner, so the replay is somewhere in `ndarray`."""
    from guppy import hpy

    heap = hpy().heap()
    arrays = next(row for row in heap.bytype.partition.get_rows() if "ndarray" in row.name)
    return {"bytes": heap.size, "replay_bytes": arrays.size}


def muppy_says(roots: Mapping[str, Any]) -> Said:
    from pympler import muppy, summary

    rows = summary.summarize(muppy.get_objects())
    arrays = next(size for name, _, size in rows if "ndarray" in name)
    return {"bytes": sum(size for _, _, size in rows), "replay_bytes": arrays}


def asizeof_says(roots: Mapping[str, Any]) -> Said:
    """By owner, for owners that are named to it."""
    from pympler import asizeof

    sizes = {name: asizeof.asizeof(root) for name, root in roots.items()}
    return {"bytes": sum(sizes.values()), "replay_bytes": sizes["replay"]}


def objgraph_says(roots: Mapping[str, Any]) -> Said:
    """It counts; the sizes are the interpreter's own. What gc does not track is not there."""
    import objgraph

    counts = objgraph.typestats()
    objects = gc.get_objects()
    return {
        "bytes": sum(map(sys.getsizeof, objects)),
        "replay_bytes": 0 if not counts.get("ndarray") else -1,
    }


def psutil_says(roots: Mapping[str, Any]) -> Said:
    """Kinds of memory: what is behind [heap] and nameless mappings has no name."""
    import psutil

    maps = psutil.Process().memory_maps(grouped=True)
    named = [one for one in maps if one.path not in ("[heap]", "[anon]")]
    return {
        "bytes": sum(one.rss for one in maps),
        "named_bytes": sum(one.rss for one in named),
        "replay_bytes": 0,
    }
