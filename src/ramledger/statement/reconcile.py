"""Accounts that sum to RSS: every resident page is booked to an owner, an account or a pool.

Objects with an address are booked page by page. Bytes without an address (small Python objects,
native heap of imports) are taken from the pools, never more than allocator statistics measure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ramledger.ledger import Entry, LargeObject, Source, in_printing_order
from ramledger.measure.mappings import Mapping
from ramledger.measure.pages import ResidentPages
from ramledger.statement.mapping_accounts import MappingAccount, Pool, account_of_mapping
from ramledger.statement.process_measurement import Measurement
from ramledger.units import format_bytes

if TYPE_CHECKING:  # a statement from outside needs no objects
    from ramledger.objects.holdings import Block, Holding
    from ramledger.objects.process_objects import ProcessObjects


@dataclass(slots=True)
class _Row:
    """An account while it is computed."""

    source: Source
    resident_bytes: int = 0
    reserved_bytes: int = 0
    objects: int | None = None
    fill: float | None = None
    note: str = ""


@dataclass(slots=True)
class Located:
    """A block with its resident bytes."""

    block: "Block"
    holding: "Holding"
    start: int
    stop: int
    resident_bytes: int = 0

    @property
    def reserved_bytes(self) -> int:
        return self.stop - self.start


@dataclass(slots=True)
class _Claimed:
    """Bytes of one mapping that belong to located blocks."""

    resident_bytes: int = 0
    reserved_bytes: int = 0


_NOTHING = _Claimed()


@dataclass(slots=True)
class Reconciliation:
    """Entries whose sum never exceeds RSS, and the large objects behind them."""

    entries: tuple[Entry, ...]
    large_objects: tuple[LargeObject, ...] = ()


@dataclass(slots=True)
class _Pools:
    """Anonymous memory not claimed by any located block."""

    heap_bytes: int = 0  # resident, unclaimed, in malloc's arenas
    mapped_bytes: int = 0  # resident, unclaimed, elsewhere
    python_bytes: int = 0  # the part of mapped_bytes in mappings that contain Python objects
    python_untouched_bytes: int = 0  # the part of those mappings that is not resident
    claimed_heap_reserved: int = 0
    claimed_mapped_reserved: int = 0
    rows: dict[str, _Row] = field(default_factory=dict)


def reconcile_outside(measurement: Measurement) -> Reconciliation:
    """Accounts of a process from outside: only what its mappings show."""
    rows: dict[str, _Row] = {}
    for mapping in measurement.mappings:
        booked_to = account_of_mapping(mapping, measurement)
        if isinstance(booked_to, MappingAccount):
            _book(rows, booked_to.account, booked_to.source, mapping.rss_bytes, mapping.size_bytes)
        elif booked_to is Pool.HEAP:
            main = mapping.start not in measurement.arena_heaps
            account = "heap/main" if main else "heap/thread arenas"
            _book(rows, account, Source.ALLOCATOR, mapping.rss_bytes, mapping.size_bytes)
    _annotate(rows, measurement)
    return Reconciliation(_entries(rows))


def reconcile_inside(
    measurement: Measurement, objects: "ProcessObjects", large_bytes: int, top: int
) -> Reconciliation:
    """Accounts of this process: objects first, then allocator statistics."""
    located = _locate(objects.holdings)
    claimed = _measure(located, measurement)
    rows: dict[str, _Row] = {}
    pools = _book_mappings(measurement, objects, claimed, rows)
    for item in located:
        holding = item.holding
        _book(rows, holding.account, holding.source, item.resident_bytes, item.reserved_bytes)
    _divide_pools(rows, pools, measurement, objects)
    _annotate(rows, measurement)
    _describe_holdings(rows, objects.holdings)
    _roll_up(rows, measurement.totals.rss_bytes)
    return Reconciliation(_entries(rows), _large_objects(located, large_bytes, top))


def _locate(holdings: "Iterable[Holding]") -> list[Located]:
    """Blocks in address order, overlaps cut: what two owners share is booked once."""
    found = [
        Located(block, holding, address, address + block.storage.reserved_bytes)
        for holding in holdings
        for block in holding.blocks
        if (address := block.storage.address) is not None and block.storage.reserved_bytes
    ]
    found.sort(key=lambda item: (item.start, -item.stop))
    located: list[Located] = []
    reach = 0
    for item in found:
        if item.stop <= reach:
            continue
        item.start = max(item.start, reach)
        reach = item.stop
        located.append(item)
    return located


def _measure(located: Sequence[Located], measurement: Measurement) -> dict[int, _Claimed]:
    """Fill in resident bytes; returns the bytes taken from each mapping, by its start.

    A block may span mappings: madvise(MADV_HUGEPAGE), which numpy calls, splits them. One
    allocated after the measurement lies in none of its mappings and is not in this RSS. Pages are
    read only in mappings that are resident in part.
    """
    pieces = list(_pieces(located, measurement.mappings))
    in_part = [(start, stop) for _, m, start, stop in pieces if m.rss_bytes < m.size_bytes]
    with ResidentPages(measurement.process.pid, measurement.mappings) as pages:
        read = iter(pages.resident_bytes(in_part))
    claimed: dict[int, _Claimed] = {}
    for item, mapping, start, stop in pieces:
        is_whole = mapping.rss_bytes >= mapping.size_bytes
        resident_bytes = stop - start if is_whole else next(read)
        taken = claimed.setdefault(mapping.start, _Claimed())
        # pages touched since the measurement must not push an account beyond its mapping
        resident_bytes = min(resident_bytes, mapping.rss_bytes - taken.resident_bytes)
        item.resident_bytes += resident_bytes
        taken.resident_bytes += resident_bytes
        taken.reserved_bytes += stop - start
    return claimed


def _pieces(
    located: Iterable[Located], mappings: Sequence[Mapping]
) -> Iterator[tuple[Located, Mapping, int, int]]:
    at = 0
    for item in located:
        while at < len(mappings) and mappings[at].stop <= item.start:
            at += 1
        behind = at
        while behind < len(mappings) and mappings[behind].start < item.stop:
            mapping = mappings[behind]
            yield item, mapping, max(item.start, mapping.start), min(item.stop, mapping.stop)
            behind += 1


def _book_mappings(
    measurement: Measurement,
    objects: "ProcessObjects",
    claimed: dict[int, _Claimed],
    rows: dict[str, _Row],
) -> _Pools:
    pools = _Pools()
    python_starts = objects.mappings_with_objects(measurement.mappings)
    for mapping in measurement.mappings:
        claim = claimed.get(mapping.start, _NOTHING)
        rest = mapping.rss_bytes - claim.resident_bytes
        taken = claim.reserved_bytes
        booked_to = account_of_mapping(mapping, measurement)
        if isinstance(booked_to, MappingAccount):
            _book(
                rows, booked_to.account, booked_to.source, rest, max(0, mapping.size_bytes - taken)
            )
        elif booked_to is Pool.HEAP:
            pools.heap_bytes += rest
            pools.claimed_heap_reserved += taken
        else:
            pools.mapped_bytes += rest
            pools.claimed_mapped_reserved += taken
            if mapping.start in python_starts:
                pools.python_bytes += rest
                untouched = mapping.size_bytes - mapping.rss_bytes
                pools.python_untouched_bytes += untouched - (taken - claim.resident_bytes)
    return pools


def _divide_pools(
    rows: dict[str, _Row], pools: _Pools, measurement: Measurement, objects: "ProcessObjects"
) -> None:
    python_used = _book_python(rows, pools, measurement)
    native_used = _book_malloc(rows, pools, measurement, python_total=python_used[1])
    small = [(h.account, h.source, h.python_bytes) for h in objects.holdings]
    native = [(h.account, h.source, h.native_bytes) for h in objects.holdings]
    imports_python, imports_native = objects.import_wants()
    rest = _draw(rows, python_used[0], small, imports_python)
    _book(rows, "python/objects", Source.INTERPRETER, rest, rest)
    rest = _draw(rows, native_used, native, imports_native)
    _book(rows, "native/in use", Source.ALLOCATOR, rest, rest)


def _book_python(rows: dict[str, _Row], pools: _Pools, measurement: Measurement) -> tuple[int, int]:
    """Book CPython's free arena pages; returns (bytes in use, all resident arena bytes)."""
    statistics = measurement.python
    if statistics is None:
        return 0, 0
    # pools that never held an object belong to an arena, but are not resident
    untouched = max(0, min(statistics.unused_pool_bytes, pools.python_untouched_bytes))
    # Blocks in use are resident somewhere in the pool. Free pages count only in mappings with known
    # objects: arenas full of untracked ones (flat dicts, numbers) are not known.
    used = min(statistics.used_bytes, pools.mapped_bytes)
    free = max(0, min(statistics.arena_bytes - untouched, pools.python_bytes) - used)
    _book(rows, "python/free", Source.INTERPRETER, free, statistics.arena_bytes - used)
    return used, used + free


def _book_malloc(
    rows: dict[str, _Row], pools: _Pools, measurement: Measurement, python_total: int
) -> int:
    """Book malloc's free bytes; returns resident bytes in use that belong to no located block."""
    statistics = measurement.heap
    if statistics is None:
        return 0
    in_use = max(0, statistics.in_use_bytes - pools.claimed_heap_reserved)
    small = min(in_use, pools.heap_bytes)
    free = min(statistics.free_bytes, pools.heap_bytes - small)
    _book(rows, "allocator/free", Source.ALLOCATOR, free, statistics.free_bytes)
    large = max(0, statistics.mmapped_bytes - pools.claimed_mapped_reserved)
    return small + min(large, pools.mapped_bytes - python_total)


_Want = tuple[str, Source, int]


def _draw(
    rows: dict[str, _Row], pool_bytes: int, first: Sequence[_Want], then: Sequence[_Want]
) -> int:
    """Book bytes of a pool to owners, live objects before imports; returns what is left."""
    for wants in (first, then):
        total = sum(want for *_, want in wants)
        for account, source, want in wants:
            share = want if total <= pool_bytes else want * pool_bytes // total
            _book(rows, account, source, share, share)
        pool_bytes -= sum(
            want if total <= pool_bytes else want * pool_bytes // total for *_, want in wants
        )
    return pool_bytes


def _book(
    rows: dict[str, _Row], account: str, source: Source, resident: int, reserved: int
) -> None:
    if resident <= 0 and reserved <= 0:
        return
    row = rows.get(account)
    if row is None:
        row = rows[account] = _Row(source)
    row.resident_bytes += resident
    row.reserved_bytes += reserved


def _describe_holdings(rows: dict[str, _Row], holdings: "Iterable[Holding]") -> None:
    for holding in holdings:
        row = rows.get(holding.account)
        if row is None:
            continue
        row.objects = (row.objects or 0) + holding.objects
        row.fill = holding.fill
        shared = sorted({path for block in holding.blocks for path in block.shared_with})
        if shared:
            row.note = f"also held by {shared[0]}" + (", …" if len(shared) > 1 else "")
        elif holding.owners > 1:
            row.note = f"{holding.owners} instances"


def _annotate(rows: dict[str, _Row], measurement: Measurement) -> None:
    stacks = rows.get("threads/stacks")
    if stacks is not None:
        stacks.objects = measurement.stacks.count
        many = "" if measurement.stacks.count == 1 else "s"
        stacks.note = f"{measurement.stacks.count} thread{many}, touched pages only"
    private: dict[str, int] = {}
    for mapping in measurement.mappings:
        package = measurement.libraries.get(mapping.start)
        if package is not None:
            private[package] = private.get(package, 0) + mapping.anonymous_bytes
    for package, private_bytes in private.items():
        row = rows.get(f"libraries/{package}")
        if row is not None:
            clean = max(0, row.resident_bytes - private_bytes)
            row.note = f"{format_bytes(clean)} file pages, {format_bytes(private_bytes)} private"
    heap = rows.get("allocator/free")
    if heap is not None and measurement.heap is not None:
        threads, arenas = measurement.process.threads, measurement.heap.arenas
        heap.note = f"freed, kept by malloc; {arenas} arenas, {threads} threads"


def _roll_up(rows: dict[str, _Row], rss_bytes: int) -> None:
    """Move very small rows to `other` of their family, and those of a claim to the claim."""
    threshold = max(64 * 1024, rss_bytes // 1000)
    for account in list(rows):
        family, below, _ = account.partition("/")
        row = rows[account]
        if not below or row.resident_bytes >= threshold or row.reserved_bytes >= 16 * threshold:
            continue
        if family in _FAMILIES:
            into = f"{family}/other"
        elif row.source in (Source.CLAIM, Source.RECOGNIZED):
            into = account.rpartition("/")[0]
        else:
            continue
        if into != account:
            del rows[account]
            _book(rows, into, row.source, row.resident_bytes, row.reserved_bytes)
            if into in rows and row.objects:
                rows[into].objects = (rows[into].objects or 0) + row.objects


_FAMILIES = frozenset({"variables", "imports", "files"})


def _entries(rows: dict[str, _Row]) -> tuple[Entry, ...]:
    return in_printing_order(
        Entry(
            account, row.resident_bytes, row.reserved_bytes, row.source, row.objects, row.fill,
            row.note,
        )
        for account, row in rows.items()
        if row.resident_bytes or row.reserved_bytes >= 1 << 20
    )  # fmt: skip


def _large_objects(
    located: Iterable[Located], large_bytes: int, top: int
) -> tuple[LargeObject, ...]:
    large = [item for item in located if item.reserved_bytes >= large_bytes]
    large.sort(key=lambda item: (-item.resident_bytes, item.start))
    return tuple(
        LargeObject(
            path=item.block.path,
            account=item.holding.account,
            type=item.block.storage.type,
            resident_bytes=item.resident_bytes,
            reserved_bytes=item.reserved_bytes,
            dtype=item.block.storage.dtype,
            shape=item.block.storage.shape,
            fill=item.block.fill
            if item.block.fill is not None
            else round(item.resident_bytes / item.reserved_bytes, 4),
            shared_with=tuple(item.block.shared_with),
            pinned_by_view=item.block.storage.pinned_by_view,
        )
        for item in large[:top]
    )
