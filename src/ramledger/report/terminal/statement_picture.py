"""A statement as an SVG picture for a README: the terminal's own text, no font from elsewhere."""

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
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, legacy_windows=False
    )
    print_statement(statement, advice, remarks, top=top, console=console)
    svg = console.export_svg(title=f"ramledger explain {statement.pid}")
    # a picture in a page loads no fonts from elsewhere
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    return svg.replace("Fira Code", FONTS)
