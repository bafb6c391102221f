"""How much of RSS is named and owned on the five trainings, with claims and without a line changed.

tests/process/statement/test_coverage.py holds the same statements to an independent truth.
"""

import sys

from rich import box
from rich.console import Console
from rich.table import Table

from tests.process.statement.test_coverage import BARS, IMPORTS, WAYS
from tests.support.held_program import observe

MIB = 1 << 20


def main() -> int:
    rows = Table(box=box.MARKDOWN)
    rows.add_column("program")
    for column in ("RSS MiB", *(f"{what}, {way}" for way in WAYS for what in ("named", "owned"))):
        rows.add_column(column, justify="right")
    is_above = True
    for name in IMPORTS:
        cells = []
        for way in WAYS:
            statement = observe(name, way).statement
            shares = (statement.named_fraction, statement.owned_fraction)
            is_above &= all(share >= bar for share, bar in zip(shares, BARS[way], strict=True))
            cells += [f"{share:.1%}" for share in shares]
        rows.add_row(name, f"{statement.rss_bytes / MIB:.1f}", *cells)
    bars = [f"≥ {bar:.0%}" for way in WAYS for bar in BARS[way]]
    rows.add_row("bar", "", *bars)
    Console(width=100).print(rows)
    return 0 if is_above else 1


if __name__ == "__main__":
    sys.exit(main())
