"""Every object that the garbage collector tracks, counted by type, in steps of a millisecond.

With the compiled `heap_walk`, other threads run between steps. Without it all objects come as one
list, while no other thread runs: only done if there are few. Tuples are never referred to: the
collector lists those that C code is still filling, and resizing one that has another reference is
a SystemError in the program (_PyTuple_Resize).
"""

import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from ramledger.interpreter.attributes import let_go
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.object_sizes import size_of, size_rule

try:
    from ramledger.interpreter import heap_walk as heap_walk
except ImportError:  # not compiled
    heap_walk = None  # type: ignore[assignment]

MOST_AT_ONCE = 20_000  # objects and referents in one step: 1 to 2 ms
# In the first steps most types are new, and all objects of new types are collected.
_FIRST_AT_ONCE = 250
MOST_HELD = 2_000  # objects of one list, without the compiled part
# allocated blocks up to which one list is made; about 130 ns for each object in it
MOST_WITHOUT_REST = 150_000
ADDRESS_SAMPLE = 4_000
# longer than a thread waits for a processor; another thread may wait so long for the GIL
_UNDISTURBED_SECONDS = 3.0


class What(IntEnum):
    """What to do with the instances of a type."""

    COUNT = 1
    COLLECT = 2
    NEVER_HOLD = 3


Classify = Callable[[type], What]


class TypeRow(NamedTuple):
    """Tracked instances of a type, and what only a search finds: all its arrays, and bytes."""

    kind: type
    instances: int
    bytes: int = -1  # of the objects themselves; -1 if not known
    arrays: int = 0
    array_bytes: int = 0


class ArrayFacts(NamedTuple):
    """Which arrays a search looks for; see `heap_walk.search`."""

    array: type | None
    getters: tuple[Any, ...]
    others: tuple[type, ...]
    opaque: type | None  # what its instances refer to is not read
    large_bytes: int
    most: int


class Search(Protocol):
    """Takes the arrays that a walk finds."""

    def facts(self) -> ArrayFacts:
        """What to look for."""

    def take_described(self, rows: list[tuple[Any, ...]]) -> None:
        """Take arrays by their type and what the getters say."""

    def take_others(self, arrays: list[Any]) -> None:
        """Take large bytes, and arrays that are not numpy's."""

    def take_holders(self, holders: list[Any]) -> None:
        """Search the referents of objects: only called without the compiled part."""


class TrackedObjects:
    """One pass over all tracked objects. Iterate over it first, then read `rows`."""

    def __init__(self, classify: Classify, allowance: Allowance, search: Search | None = None):
        self.rows: list[TypeRow] = []
        self.addresses: list[int] = []  # of some of the objects
        self.why_not = ""  # the reason, if objects could not be counted
        self.is_reordered = False  # if that is the reason; another pass will do
        self._classify = classify
        self._allowance = allowance
        self._search = search
        self._every = max(1, sys.getallocatedblocks() // ADDRESS_SAMPLE)
        self._collections = _full_collections()
        self._walk = _new_walk(self._every)

    def __iter__(self) -> Iterator[list[Any]]:
        """Lists of the objects to collect; the caller drops each before it takes the next."""
        return self._in_stretches() if self._walk is not None else self._all_at_once()

    @property
    def counts(self) -> list[tuple[type, int]]:
        """Tracked instances by type."""
        return [(row.kind, row.instances) for row in self.rows if row.instances]

    def count_only(self, kind: type) -> None:
        """From now on, only count instances of this type."""
        if self._walk is not None:
            self._mark(kind, What.COUNT)

    def _mark(self, kind: type, what: What) -> None:
        rule = size_rule(kind) if self._search is not None else (0, 0, None)
        heap_walk.mark(self._walk, kind, what, *rule)

    def _in_stretches(self) -> Iterator[list[Any]]:
        walk, search, most = self._walk, self._search, _FIRST_AT_ONCE
        self._mark(tuple, What.NEVER_HOLD)
        self._mark(frozenset, What.NEVER_HOLD)
        if search is not None:
            heap_walk.search(walk, *search.facts())
        is_end = False
        while not is_end:
            if self._allowance.is_spent():
                self.why_not = "counting all objects would have cost too much time"
                return
            objects, new_kinds, described, others, is_end = heap_walk.go_on(walk, most)
            if self._has_new_order():
                self.is_reordered = True
                self.why_not = "the garbage collector moved objects while they were counted"
                return
            for kind in new_kinds:
                self._mark(kind, self._classify(kind))
            if search is not None:
                search.take_described(described)
                search.take_others(others)
            # the next stretch must not meet them: what a view is based on may have no other holder
            others.clear()
            described.clear()
            if objects:
                yield objects
            most = min(2 * most, MOST_AT_ONCE)
        self.rows = list(map(TypeRow._make, heap_walk.counts(walk)))
        self.addresses = heap_walk.addresses(walk)

    def _has_new_order(self) -> bool:
        """Whether objects may be met again: full collections bring some to the end of the list."""
        return _full_collections() != self._collections or heap_walk.is_frozen_anew(self._walk)

    def _all_at_once(self) -> Iterator[list[Any]]:
        blocks = sys.getallocatedblocks()
        if blocks > MOST_WITHOUT_REST:
            self.why_not = (
                f"objects were not counted: with {blocks:,} blocks in use, counting would pause the"
                " program for too long (the compiled part of ramledger is missing)"
            )
            return
        with _undisturbed():
            objects = gc.get_objects()
            kinds = list(map(type, objects))
            held = [obj for obj in objects if type(obj) is not tuple and type(obj) is not frozenset]
            let_go(objects)
        self.addresses = list(map(id, held[:: self._every]))
        counts = Counter(map(id, kinds))
        by_identity = dict(zip(map(id, kinds), kinds, strict=True))
        let_go(kinds)
        sizes: Counter[int] = Counter()
        what = {identity: self._classify(kind) for identity, kind in by_identity.items()}
        wanted = {identity for identity, found in what.items() if found is What.COLLECT}
        while held:
            chunk = held[-MOST_HELD:]
            del held[-MOST_HELD:]
            if self._search is not None:
                for obj in chunk:
                    sizes[id(type(obj))] += size_of(obj)
                self._search.take_holders(chunk)
            yield [obj for obj in chunk if id(type(obj)) in wanted]
        self.rows = [
            TypeRow(by_identity[identity], count, sizes.get(identity, -1))
            for identity, count in counts.items()
        ]


def _full_collections() -> int:
    """How many collections of all objects there were."""
    return int(gc.get_stats()[2]["collections"])


def is_compiled() -> bool:
    """Whether the compiled walk works with this interpreter."""
    return _new_walk(1) is not None


def _new_walk(every: int) -> Any:
    """The compiled walk; None if it is missing, or does not know this interpreter's gc lists."""
    if heap_walk is None or not _LAYOUT_IS_KNOWN:
        return None
    try:
        return heap_walk.new_walk(*gc.get_threshold(), every)
    except (ValueError, OverflowError):
        return None


# The walk needs gc lists that are linked through object headers: not in builds without a GIL ("t"
# in abiflags), not from 3.14 on. A debug build ("d") may have larger object headers.
_LAYOUT_IS_KNOWN = (
    sys.implementation.name == "cpython"
    and (3, 11) <= sys.version_info < (3, 14)
    and sys.maxsize > 2**32
    and not getattr(sys, "abiflags", "")
)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No other thread takes the GIL meanwhile, even if the kernel takes our processor away.

    A waiting thread requests the GIL after a switch interval in which nobody else got it (take_gil
    in Python/ceval_gil.c). So the interval is made long, then the GIL is taken anew. Waiting
    threads wake up when it is released at the end.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(max(_UNDISTURBED_SECONDS, interval))
    try:
        time.sleep(0)
        yield
    finally:
        sys.setswitchinterval(interval)
        time.sleep(0)
