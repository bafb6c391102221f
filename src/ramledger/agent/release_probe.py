"""Probes: what a garbage collection and a trim of malloc's heap give back is evidence.

At the end of a program nothing can be disturbed any more, so they always run there. While it runs
they change it, so only on request; then they are taken ever more rarely.
"""

import gc
import time
from typing import Any

from ramledger.measure.allocators import malloc
from ramledger.measure.own_memory import Meter

_FIRST_GENERATIONS = 4


class LiveProbes:
    """Whether a probe is due: after 4, 8, 16, … generations."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._seen = 0
        self._due = _FIRST_GENERATIONS

    def is_due(self) -> bool:
        """Called once a generation."""
        self._seen += 1
        if not self._wanted or self._seen < self._due:
            return False
        self._due *= 2
        return True


def probe(meter: Meter) -> dict[str, Any]:
    """Collect, then trim; anonymous memory before, between and after, as an event."""
    before = meter.split_bytes()[0]
    collected = gc.collect()
    after_collect = meter.split_bytes()[0]
    malloc.trim()
    return {
        "event": "probe", "mono": time.monotonic(), "anon_bytes": before,
        "collected_objects": collected, "after_collect_bytes": after_collect,
        "after_trim_bytes": meter.split_bytes()[0],
    }  # fmt: skip
