"""Costs of imports that were measured in another process, booked in a statement as just that.

They are taken from what this process has in use without an owner, never more than there is, so
the sum of the statement stays the same.
"""

from collections.abc import Mapping
from dataclasses import replace

from ramledger.ledger import Entry, Source, Statement, in_printing_order

NOT_WATCHED = "imports were not watched from the start: their share is in native/in use"
NATIVE_POOL, PYTHON_POOL = "native/in use", "python/objects"
STARTUP, OTHER = "python/startup", "imports/other"
_NOTE = "calibrated"

Costs = Mapping[str, tuple[int, int]]  # by account: native, Python


def unowned_bytes(statement: Statement) -> int:
    """What imports may have added, as far as nobody owns it."""
    return statement.total(NATIVE_POOL) + statement.total(PYTHON_POOL)


def with_calibrated(statement: Statement, costs: Costs) -> Statement:
    """The statement with `costs` booked to their accounts; those measured here stay as they are."""
    measured = {entry.account for entry in statement.entries}
    wanted = {account: pair for account, pair in costs.items() if account not in measured}
    native = _drawn(statement.total(NATIVE_POOL), {a: pair[0] for a, pair in wanted.items()})
    python = _drawn(statement.total(PYTHON_POOL), {a: pair[1] for a, pair in wanted.items()})
    sizes = {account: native[account] + python[account] for account in wanted}
    if OTHER not in measured:
        sizes = _rolled_up(sizes, max(64 * 1024, statement.rss_bytes // 1000))
    entries = [
        *(_reduced(e, {NATIVE_POOL: native, PYTHON_POOL: python}) for e in statement.entries),
        *(Entry(a, size, size, Source.CALIBRATED, note=_NOTE) for a, size in sizes.items()),
    ]
    notes = [note for note in statement.notes if note != NOT_WATCHED]
    notes.append("calibrated: measured in another process with the same imports, not in this one")
    return replace(
        statement,
        entries=in_printing_order(e for e in entries if e.resident_bytes or e.reserved_bytes),
        notes=tuple(notes),
    )


def not_calibrated(statement: Statement, reason: str) -> Statement:
    """The statement with the reason why imports have no account of their own."""
    notes = [f"{note}; {reason}" if note == NOT_WATCHED else note for note in statement.notes]
    return replace(statement, notes=tuple(notes))


def _drawn(pool_bytes: int, wants: Mapping[str, int]) -> dict[str, int]:
    total = sum(wants.values())
    if total <= pool_bytes:
        return dict(wants)
    return {account: want * pool_bytes // total for account, want in wants.items()}


def _reduced(entry: Entry, drawn: Mapping[str, Mapping[str, int]]) -> Entry:
    taken = sum(drawn.get(entry.account, {}).values())
    return replace(
        entry,
        resident_bytes=entry.resident_bytes - taken,
        reserved_bytes=max(0, entry.reserved_bytes - taken),
    )


def _rolled_up(sizes: Mapping[str, int], threshold: int) -> dict[str, int]:
    """Very small packages are one row."""
    found: dict[str, int] = {}
    for account, size in sizes.items():
        is_small = size < threshold and account.startswith("imports/")
        into = OTHER if is_small else account
        found[into] = found.get(into, 0) + size
    return found
