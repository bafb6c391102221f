"""`%load_ext ramledger`: `%ramledger` shows the statement of the kernel, `%%ramledger` a cell's.

A cell runs as it would without the magic, and what it raises is raised. The one exception is a cell
with `await` in a notebook: its loop runs already, so that it is refused.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ramledger.html_tables import display, lines, table, title
from ramledger.ledger import Statement, StatementDiff, in_printing_order, printable
from ramledger.process_session import ProcessSession
from ramledger.units import format_bytes, format_delta

NAME = "ramledger"
_MOST_OWNERS = 8
_MOST_ACCOUNTS = 5
_WORTH_BYTES = 64 << 10  # of growth: less is our own work and the notebook's


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext ramledger`."""
    session = ProcessSession()
    _ = session.ledger  # imports are watched from here on

    def ramledger(line: str, cell: str | None = None) -> None:
        """`%ramledger`: where the RAM is now. `%%ramledger [LABEL]`: what a cell adds to it."""
        if cell is None:
            statement = session.ledger.snapshot(line.strip())
            _show(shell, str(statement), statement._repr_html_())
        else:
            _run_cell(shell, session, line.strip(), cell)

    shell.register_magic_function(ramledger, "line_cell", NAME)


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext ramledger`."""
    for magics in shell.magics_manager.magics.values():
        magics.pop(NAME, None)


def _run_cell(shell: Any, session: ProcessSession, label: str, cell: str) -> None:
    _require_no_await(shell, cell)
    before = session.ledger.snapshot()
    session.start_peak()
    with _without_traceback(shell):
        result = shell.run_cell(cell)
    peak_bytes = session.peak_bytes()
    after = session.ledger.snapshot(label)
    growth = CellGrowth(before.diff(after), peak_bytes, label)
    _show(shell, str(growth), growth._repr_html_())
    result.raise_error()


def _require_no_await(shell: Any, cell: str) -> None:
    from IPython.core.error import UsageError

    if asyncio._get_running_loop() is not None and shell.should_run_async(
        cell, transformed_cell=shell.transform_cell(cell)
    ):
        raise UsageError(
            "%%ramledger cannot run a cell with `await`: put %ramledger in the cells around it"
        )


@contextmanager
def _without_traceback(shell: Any) -> Iterator[None]:
    """What the cell raises is raised again below, and shown then: once."""
    names = ("showtraceback", "showsyntaxerror")
    for name in names:
        setattr(shell, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name in names:
            delattr(shell, name)


def _show(shell: Any, text: str, html: str) -> None:
    shell.display_pub.publish({"text/plain": text, "text/html": html})


class CellGrowth:
    """What a cell did: RSS before and after, the owners that grew, the largest accounts."""

    def __init__(self, diff: StatementDiff, peak_bytes: int, label: str = "") -> None:
        self.diff = diff
        self.peak_bytes = max(peak_bytes, diff.before.rss_bytes, diff.after.rss_bytes)
        self.label = label

    @property
    def headline(self) -> str:
        """`RSS 80.1 MiB → 182.4 MiB (+102.3 MiB), at most 190.2 MiB`."""
        before, after = self.diff.before.rss_bytes, self.diff.after.rss_bytes
        text = (
            f"RSS {format_bytes(before)} → {format_bytes(after)} ({format_delta(after - before)})"
        )
        name = f"{printable(self.label)}: " if self.label else ""
        return f"{name}{text}, at most {format_bytes(self.peak_bytes)}"

    @property
    def owners(self) -> list[tuple[str, str, str]]:
        """Name, growth, size now; the largest changes first, all others in one row."""
        changes = self.diff.changes
        shown = [c for c in changes if abs(c.growth_bytes) >= _WORTH_BYTES][:_MOST_OWNERS]
        rows = [
            (printable(c.account), format_delta(c.growth_bytes), format_bytes(c.after_bytes))
            for c in shown
        ]
        rest = self.diff.rss_growth_bytes - sum(c.growth_bytes for c in shown)
        return [*rows, ("all others", format_delta(rest), "")] if rest else rows

    @property
    def largest(self) -> list[tuple[str, str]]:
        """Name and size of the largest accounts now."""
        return [
            (printable(e.account), format_bytes(e.resident_bytes))
            for e in _largest(self.diff.after)
        ]

    def __str__(self) -> str:
        rows = [*self.owners, *self.largest]
        width = max(len(row[0]) for row in rows)
        text = [self.headline]
        text += [f"  {name:<{width}}  {grown:>11}  {now:>11}" for name, grown, now in self.owners]
        text.append("largest now:")
        text += [f"  {name:<{width}}  {'':>11}  {size:>11}" for name, size in self.largest]
        return "\n".join(line.rstrip() for line in text)

    def _repr_html_(self) -> str:
        return display(
            title(self.headline),
            table(("owner", "growth", "now"), self.owners, numbers=(1, 2)) if self.owners else "",
            lines(["largest now: " + ", ".join(f"{name} {size}" for name, size in self.largest)]),
        )


def _largest(statement: Statement) -> Any:
    return in_printing_order(statement.entries)[:_MOST_ACCOUNTS]
