"""Statements and what grew between two of them as text and as HTML for notebooks."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ramledger.units import format_bytes, format_delta, format_duration

if TYPE_CHECKING:
    from ramledger.ledger import AccountChange, Entry, Statement, StatementDiff

_MAX_COUNT_LINES = 15
_MAX_CHANGES = 10  # in a notebook; the others are one row
_OTHERS = "all others"


def printable(text: str) -> str:
    """Text of anybody's (command lines, class names, paths) as one line that steers no terminal.

    Control codes, line breaks, marks that turn the direction of writing or have no width, and
    halves of surrogate pairs are shown as escapes.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


# ---- a statement -------------------------------------------------------------------------------


def statement_title(statement: "Statement") -> str:
    """`half full: python train.py (pid 25078)`."""
    label = f"{printable(statement.label)}: " if statement.label else ""
    return f"{label}{printable(statement.command)} (pid {statement.pid})"


def statement_text(statement: "Statement") -> str:
    """The whole table."""
    lines = [statement_title(statement), f"  {_summary(statement)}"]
    rows = _rows(statement)
    width = max(len(account) for account, *_ in rows)
    lines.append(f"  {'account':<{width}}  {'resident':>11}  {'share':>6}  {'reserved':>11}")
    lines += [
        f"  {account:<{width}}  {resident:>11}  {share:>6}  {reserved:>11}  {note}".rstrip()
        for account, resident, share, reserved, note in rows
    ]
    return "\n".join((*lines, *(f"  {line}" for line in _remarks(statement))))


def statement_html(statement: "Statement") -> str:
    """The same for a notebook."""
    from ramledger.html_tables import display, lines, table, title

    heads = ("account", "resident", "share", "reserved", "")
    return display(
        title(statement_title(statement)),
        lines([_summary(statement)]),
        table(heads, _rows(statement), numbers=(1, 2, 3), is_last_a_sum=True),
        lines(_remarks(statement)),
    )


def _rows(statement: "Statement") -> list[tuple[str, str, str, str, str]]:
    """Account, resident, share, reserved, a remark; `unexplained` and RSS last."""
    rss = statement.rss_bytes
    sizes = [
        (printable(e.account), e.resident_bytes, e.reserved_bytes, _fill_note(e))
        for e in statement.entries
    ]
    sizes += [("unexplained", statement.unexplained_bytes, 0, "")]
    rows = [
        (account, format_bytes(resident), f"{resident / rss:.1%}" if rss else "-",
         format_bytes(reserved) if reserved else "", note)
        for account, resident, reserved, note in sizes
    ]  # fmt: skip
    return [*rows, ("RSS", format_bytes(rss), "100.0%", "", "")]


def _summary(statement: "Statement") -> str:
    parts = [
        f"RSS {format_bytes(statement.rss_bytes)}",
        f"virtual {format_bytes(statement.vms_bytes)}",
        f"{statement.threads} threads",
        f"up {format_duration(statement.uptime_seconds)}",
    ]
    if statement.swap_bytes:
        parts.insert(1, f"swap {format_bytes(statement.swap_bytes)}")
    if statement.limit:
        source = printable(statement.limit.source)
        parts.append(f"limit {format_bytes(statement.limit.bytes)} ({source})")
    return " · ".join(parts)


def _remarks(statement: "Statement") -> list[str]:
    seen = "" if statement.inside else " (seen from outside)"
    quality = f"named {statement.named_fraction:.1%}, owned {statement.owned_fraction:.1%}{seen}"
    return [quality, *(f"note: {printable(note)}" for note in statement.notes)]


def _fill_note(entry: "Entry") -> str:
    parts = [f"{entry.fill:.0%} filled"] if entry.fill is not None else []
    if entry.note:
        parts.append(printable(entry.note))
    return ", ".join(parts)


# ---- what grew ---------------------------------------------------------------------------------


def growth_title(diff: "StatementDiff") -> str:
    """`from 'empty' to 'after': RSS +70.9 MiB`."""
    names = (diff.before.label or "before", diff.after.label or "after")
    return f"from {names[0]!r} to {names[1]!r}: RSS {format_delta(diff.rss_growth_bytes)}"


def growth_text(diff: "StatementDiff") -> str:
    """Every account that changed, and the numbers of live instances that did."""
    lines = [growth_title(diff)]
    rows = [c for c in diff.changes if c.growth_bytes]
    width = max((len(printable(c.account)) for c in rows), default=0)
    lines += [
        f"  {printable(c.account):<{width}}  {format_bytes(c.before_bytes):>11} -> "
        f"{format_bytes(c.after_bytes):>11}  {format_delta(c.growth_bytes):>11}"
        for c in rows
    ]
    if diff.count_changes:
        lines.append("live instances:")
    lines += [
        f"  {printable(name)}: {before:,} -> {after:,} ({after - before:+,})"
        for name, before, after in diff.count_changes[:_MAX_COUNT_LINES]
    ]
    return "\n".join(lines)


def growth_html(diff: "StatementDiff") -> str:
    """The largest changes for a notebook, the others as one row, RSS last."""
    from ramledger.html_tables import display, lines, table, title

    before, after = diff.before.rss_bytes, diff.after.rss_bytes
    rows = [*_largest(diff.changes), _change("RSS", before, after)]
    counts = [
        f"{printable(name)} {old:,} → {new:,}"
        for name, old, new in diff.count_changes[:_MAX_COUNT_LINES]
    ]
    return display(
        title(f"RSS {format_bytes(before)} → {format_bytes(after)}", growth_title(diff)),
        table(
            ("account", "before", "after", "growth"), rows, numbers=(1, 2, 3), is_last_a_sum=True
        ),
        lines(["live instances: " + ", ".join(counts)] if counts else ()),
    )


def _largest(changes: Iterable["AccountChange"]) -> list[Sequence[str]]:
    changed = [change for change in changes if change.growth_bytes]
    shown, rest = changed[:_MAX_CHANGES], changed[_MAX_CHANGES:]
    rows = [_change(printable(c.account), c.before_bytes, c.after_bytes) for c in shown]
    if rest:
        sums = (sum(c.before_bytes for c in rest), sum(c.after_bytes for c in rest))
        rows.append(_change(_OTHERS, *sums))
    return rows


def _change(name: str, before: int, after: int) -> Sequence[str]:
    return name, format_bytes(before), format_bytes(after), format_delta(after - before)
