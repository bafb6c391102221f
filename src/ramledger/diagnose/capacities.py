"""Where growth ends by itself: capacities that containers, buffers and reserved arrays state."""

from collections.abc import Sequence

from ramledger.diagnose import thresholds
from ramledger.event_parts import ContainerContent
from ramledger.ledger import Entry, Source
from ramledger.run.one_snapshot import Snapshot

OWNERS = frozenset({Source.PATH, Source.CLAIM, Source.RECOGNIZED})


def capacity_of(account: str, snapshots: Sequence[Snapshot]) -> float | None:
    """Bytes that an account has when it is full; None where nothing says so."""
    seen = [one for one in snapshots if account in one.entries]
    if not seen or seen[-1].entries[account].source not in OWNERS:
        return None
    last = seen[-1]
    entry = last.entries[account]
    if last is not snapshots[-1]:
        # too small to be listed by now: another container holds the same elements
        for container in snapshots[-1].containers:
            if container.account == account and _is_believable(container, snapshots):
                return container.bytes * (container.capacity or 0) / container.length
    for container in last.containers:
        if container.account == account and _is_believable(container, snapshots):
            return entry.resident_bytes * (container.capacity or 0) / container.length
    entries = [one.entries[account] for one in seen]
    return _stated(entries) or _reserved(entries)


def _stated(entries: Sequence[Entry]) -> float | None:
    """Of a buffer that says how full it is and allocates as it goes.

    It must hold no more for each share of its capacity than it did: else something else grows.
    """
    first, last = entries[0], entries[-1]
    if not first.fill or not last.fill or not first.fill < last.fill:
        return None
    early, late = first.resident_bytes / first.fill, last.resident_bytes / last.fill
    grows = last.reserved_bytes < thresholds.NEARLY_ALL * late
    return late if grows and late <= thresholds.SAME_PACE * early else None


def _reserved(entries: Sequence[Entry]) -> float | None:
    """Of arrays that were reserved at once and are touched bit by bit."""
    reserved = entries[-1].reserved_bytes
    smallest = min(entry.reserved_bytes for entry in entries)
    at_once = smallest >= thresholds.NEARLY_ALL * reserved
    touched_later = reserved >= entries[0].resident_bytes + thresholds.FILLING_BYTES
    return float(entries[-1].full_bytes) if at_once and touched_later else None


def _is_believable(container: ContainerContent, snapshots: Sequence[Snapshot]) -> bool:
    """A queue's maxsize may be beyond all memory, and a dictionary of columns has its rows'."""
    if container.capacity is None or not 0 < container.length <= container.capacity:
        return False
    fill = container.length / container.capacity
    if fill >= thresholds.BEGUN:
        return True
    if container.bytes / fill > thresholds.LARGEST_END_BYTES:
        return False
    same = (c for snapshot in snapshots for c in snapshot.containers if c.path == container.path)
    return any(c.length != container.length for c in same)
