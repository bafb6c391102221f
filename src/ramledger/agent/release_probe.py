"""Probes: what a garbage collection and a trim of malloc's heap give back is evidence.

At the end of a program nothing can be disturbed any more, so they always run there. While it runs
they change it, so only on request; then each rest is twice as long as the one before.
"""

import gc
import os
import time

from ramledger.events import ReleaseProbeEvent
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


def probe(
    meter: Meter, *, is_live: bool = False, generation: int | None = None
) -> ReleaseProbeEvent:
    """Collect, then trim; anonymous memory before, between and after."""
    before = meter.split_bytes()[0]
    collected = gc.collect()
    after_collect = meter.split_bytes()[0]
    malloc.trim()
    return ReleaseProbeEvent(
        t=time.monotonic(),
        pid=os.getpid(),
        anon_bytes=before,
        after_collect_bytes=after_collect,
        collected_objects=collected,
        after_trim_bytes=meter.split_bytes()[0],
        is_live=is_live,
        generation=generation,
    )
