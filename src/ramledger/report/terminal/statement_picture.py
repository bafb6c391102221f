"""Terminal text as an SVG picture for a README: no font from elsewhere."""

import io
import re
from collections.abc import Sequence

from rich.console import Console

from ramledger.diagnose.advice import Advice
from ramledger.ledger import Statement
from ramledger.report.terminal.statement_text import print_statement

WIDTH = 100
FONTS = "DejaVu Sans Mono, Menlo, Consolas"


def statement_svg(
    statement: Statement,
    advice: Sequence[Advice] = (),
    remarks: Sequence[str] = (),
    *,
    top: int = 20,
) -> str:
    """What `ramledger explain` prints, as a picture."""
    console = picture_console()
    print_statement(statement, advice, remarks, top=top, console=console)
    return console_picture(console, f"ramledger explain {statement.pid}")


def picture_console(width: int = WIDTH) -> Console:
    """Prints nowhere, and remembers."""
    return Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, legacy_windows=False,
        highlight=False,
    )  # fmt: skip


def console_picture(console: Console, title: str) -> str:
    """What was printed there."""
    svg = console.export_svg(title=title)
    # a picture in a page loads no fonts from elsewhere
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    return svg.replace("Fira Code", FONTS)
