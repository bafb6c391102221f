"""Everything the operating system and the allocators say about a process at one instant.

RSS is the sum of this one reading of smaps; statm lags behind by per-CPU counters.
"""

import os
import time
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

from ramledger.ledger import Limit
from ramledger.measure.allocators.malloc import MallocStatistics, malloc_statistics, settings_of
from ramledger.measure.allocators.malloc_kind import AllocatorFacts, arena_heaps, recognize
from ramledger.measure.allocators.pymalloc import PymallocStatistics, pymalloc_statistics
from ramledger.measure.libraries import libraries
from ramledger.measure.limits import tightest
from ramledger.measure.mappings import Mapping, Totals, read_mappings, totals
from ramledger.measure.proc import ProcessFacts, process_facts
from ramledger.measure.stacks import ThreadStacks, thread_stacks


@dataclass(frozen=True, slots=True)
class Measurement:
    """One process at one instant. Allocator statistics are None for other processes."""

    at: float
    process: ProcessFacts
    mappings: tuple[Mapping, ...]
    totals: Totals
    stacks: ThreadStacks
    libraries: MappingOf[int, str]
    arena_heaps: frozenset[int]
    allocator: AllocatorFacts
    settings: MappingOf[str, str]
    limit: Limit | None
    heap: MallocStatistics | None = None
    python: PymallocStatistics | None = None


def measure_process(pid: int) -> Measurement:
    """Measure a process; with allocator statistics if it is this process."""
    own = pid == os.getpid()
    heap = malloc_statistics() if own else None
    python = pymalloc_statistics() if own else None
    process = process_facts(pid)
    mappings = read_mappings(pid)
    # zombies and kernel threads have no memory, and no environment to read
    settings = settings_of(pid) if mappings else {}
    return Measurement(
        at=time.time(),
        process=process,
        mappings=mappings,
        totals=totals(mappings),
        stacks=thread_stacks(pid, mappings, thread_count=process.threads),
        libraries=libraries(mappings),
        arena_heaps=arena_heaps(mappings, pid),
        allocator=recognize(mappings, settings, pid),
        settings=settings,
        limit=tightest(pid),
        heap=heap,
        python=python,
    )
