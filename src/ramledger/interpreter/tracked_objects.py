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
from typing import Any

from ramledger.interpreter.attributes import let_go
from ramledger.interpreter.cpu_allowance import Allowance

try:
    from ramledger.interpreter import heap_walk as heap_walk
except ImportError:  # not compiled
    heap_walk = None  # type: ignore[assignment]

MOST_AT_ONCE = 20_000  # objects counted in one step: 1 to 2 ms
MOST_HELD = 2_000  # ... and if all are collected
# allocated blocks up to which one list is made; about 130 ns for each object in it
MOST_WITHOUT_REST = 150_000
# longer than a thread waits for a processor; another thread may wait so long for the GIL
_UNDISTURBED_SECONDS = 3.0


class What(IntEnum):
    """What to do with the instances of a type."""

    COUNT = 1
    COLLECT = 2
    NEVER_HOLD = 3


Classify = Callable[[type], What]


class TrackedObjects:
    """One pass over all tracked objects. Iterate over it first, then read `counts`."""

    def __init__(self, classify: Classify, allowance: Allowance, *, everything: bool = False):
        self.counts: list[tuple[type, int]] = []
        self.why_not = ""  # the reason, if objects could not be counted
        self._classify = classify
        self._allowance = allowance
        self._everything = everything
        self._walk = _new_walk()

    def __iter__(self) -> Iterator[list[Any]]:
        """Lists of the objects to collect; the caller drops each before it takes the next."""
        return self._in_stretches() if self._walk is not None else self._all_at_once()

    def count_only(self, kind: type) -> None:
        """From now on, only count instances of this type."""
        if self._walk is not None:
            heap_walk.mark(self._walk, kind, What.COUNT)

    def _in_stretches(self) -> Iterator[list[Any]]:
        walk = self._walk
        heap_walk.mark(walk, tuple, What.NEVER_HOLD)
        heap_walk.mark(walk, frozenset, What.NEVER_HOLD)
        most = MOST_HELD if self._everything else MOST_AT_ONCE
        for generation in (
            2,
            1,
            0,
        ):  # an object that changes its gc generation meanwhile is met at most once
            heap_walk.enter(walk, generation)
            is_end = False
            while not is_end:
                if self._allowance.is_spent():
                    self.why_not = "counting all objects would have cost too much time"
                    return
                objects, new_kinds, is_end = heap_walk.go_on(walk, most, self._everything)
                for kind in new_kinds:
                    heap_walk.mark(walk, kind, self._classify(kind))
                if objects:
                    yield objects
        self.counts = heap_walk.counts(walk)

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
        counts = Counter(map(id, kinds))
        by_identity = dict(zip(map(id, kinds), kinds, strict=True))
        let_go(kinds)
        what = {identity: self._classify(kind) for identity, kind in by_identity.items()}
        wanted = {identity for identity, found in what.items() if found is What.COLLECT}
        if self._everything:
            wanted = set(what)
        while held:
            chunk = held[-MOST_HELD:]
            del held[-MOST_HELD:]
            yield [obj for obj in chunk if id(type(obj)) in wanted]
        self.counts = [(by_identity[identity], count) for identity, count in counts.items()]


def is_compiled() -> bool:
    """Whether the compiled walk works with this interpreter."""
    return _new_walk() is not None


def _new_walk() -> Any:
    """The compiled walk; None if it is missing, or does not know this interpreter's gc lists."""
    if heap_walk is None or not _LAYOUT_IS_KNOWN:
        return None
    try:
        return heap_walk.new_walk(*gc.get_threshold())
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
